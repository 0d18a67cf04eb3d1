"""Credentials: which texts hold one, what is left of them, and that none reaches the disk."""

import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import Invalid
from honeybadger_host.text.redaction import find_secrets, redact, redact_below, redact_bytes
from tests.conftest import HostFactory
from tests.host.credentials import Credential, Lot, credentials
from tests.hosting import HostProcess, RawSender, assert_refused, request, status_of, wait_for

# Sentences in which a rule for credentials must find nothing.
ORDINARY = Path(__file__).parents[1] / "ordinary.txt"
SAMPLE = credentials(seed=2026)
LOT = Lot(seed=7)
TOKEN = "gh" + "p_" + LOT.of("abcXYZ0123456789", 36)
PASSWORD = "Tr0ub4dor&3"


def unfound(sample: list[Credential]) -> list[str]:
    """Return the kinds of those whose secret is still there after redaction."""
    return [one.kind for one in sample if one.secret in redact(one.text)[0]]


def test_at_least_95_of_100_credentials_are_found() -> None:
    missed = {seed: unfound(credentials(seed)) for seed in range(20)}
    assert sum(map(len, missed.values())) <= 0.05 * 20 * len(SAMPLE), missed


def test_nothing_is_found_in_ordinary_sentences() -> None:
    sentences = [line.replace("\\n", "\n") for line in ORDINARY.read_text().splitlines()]
    texts = [*sentences, "\n".join(sentences)]
    wrong = {text[one.start - 40 : one.end] for text in texts for one in find_secrets(text)}
    assert not wrong


@pytest.mark.parametrize("page", ["README.md", "docs/protocol.md", "docs/operating.md", "docs/files.md"])
def test_nothing_is_found_in_the_documents_of_the_project(page: str) -> None:
    text = (Path(__file__).parents[3] / page).read_text()
    assert [text[one.start : one.end] for one in find_secrets(text)] == []


def test_a_heading_makes_its_text_a_secret() -> None:
    assert redact_below("Wi-Fi password", PASSWORD) == ("[REDACTED:password]", {"password": 1})
    assert redact_below("Friends", PASSWORD) == (PASSWORD, {})
    assert redact_below(TOKEN, f"PIN: {4821}")[0] == "PIN: [REDACTED:pin]"


def test_puttys_private_lines_are_a_secret() -> None:
    lines = "\n".join(LOT.of("abcXYZ0123456789+/", 64) for _ in range(3))
    text = f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 3\n{lines}\nPrivate-MAC: none"
    assert redact(text)[0].partition("Private-Lines: ")[2] == "3\n[REDACTED:private-key]\nPrivate-MAC: none"


def test_a_card_number_needs_a_right_last_digit() -> None:
    card = LOT.card("4", 16)
    wrong = card[:-1] + str((int(card[-1]) + 1) % 10)
    assert [one.kind for one in find_secrets(f"credit card {card}")] == ["card-number"]
    assert find_secrets(f"credit card {wrong}") == []
    assert find_secrets(f"order {card}") == []  # one of ten order numbers passes the check


PIECES = st.sampled_from(
    [
        *(one.text for one in SAMPLE[::3]),
        *(one.secret for one in SAMPLE[1::3]),
        *("password", "password is ", " for the ", "PIN ", "4821", "sk-", "eyJ", "A1b2C3", "://", "@", ": ", "="),
        *('"', "'", "`", "|", "\n", " ", "]", "İ", "\u200b"),
        *("[REDACTED:", "[REDACTED:password]", "-----BEGIN PRIVATE KEY-----"),
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=12).map("".join))


@given(TEXTS)
def test_redaction_never_fails_and_a_second_one_finds_nothing(text: str) -> None:
    end = 0
    for one in find_secrets(text):
        assert end <= one.start < one.end <= len(text)
        end = one.end
    once, counts = redact(text)
    assert redact(once) == (once, {})
    assert (once == text) == (not counts)


@given(st.binary(max_size=200), TEXTS)
def test_bytes_without_a_credential_stay_as_they_are(data: bytes, text: str) -> None:
    for candidate in (data, data + text.encode("utf-8", "replace"), orjson.dumps({"x": [text, {text: 1}]})):
        redacted, counts = redact_bytes(candidate)
        assert counts or redacted == candidate
        assert redact_bytes(redacted) == (redacted, {})


def test_long_texts_take_time_by_their_length_only() -> None:
    def seconds(text: str) -> float:
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    pieces = (
        *("password for ", "password", '"password":"', "password is 'a ", "pin for a ", "key ", "token:", "api_key: "),
        *("-----BEGIN PRIVATE KEY-----\n", "eyJaaaaaaaa.", "sk-", "xoxb-", "gh" + "p_", "AK" + "IA" + "A" * 16 + " "),
        *("://a:", ":AA", "4111 ", "basic ", "mnemonic: abc ", "passphrase: abc def ghi jkl the ", "a", "A1", " "),
        *("[REDACTED:x]", "-"),
    )
    for piece in pieces:  # 5 to 20 ms here; one that grows by the square takes 2 s
        assert seconds((piece * 32_768)[:32_768]) < 0.5, piece


@pytest.mark.parametrize(
    "data",
    [
        orjson.dumps({"content": f"the token is {TOKEN}"}),
        orjson.dumps({"payload": {"password": PASSWORD}}),
        orjson.dumps({f"password is {PASSWORD}": None}),
        orjson.dumps([[[[TOKEN]]]]),
        f'{{"content": "the token is {TOKEN}", "content": "twice"}}'.encode(),
        f'{{"content": "{TOKEN}'.encode(),
        b"\xff\xfe\x80" + f"password: {PASSWORD}\n".encode(),
        f"password: {PASSWORD}".encode() + b"\xff",
        ("[" * 1000 + f'"{TOKEN}"' + "]" * 1000).encode(),
        ("[" * 5000 + TOKEN).encode(),
    ],
    ids=range(10),
)
def test_bytes_of_any_kind_lose_their_credentials(data: bytes) -> None:
    redacted, counts = redact_bytes(data)
    assert sum(counts.values()) == 1
    assert TOKEN.encode() not in redacted
    assert PASSWORD.encode() not in redacted
    assert b"[REDACTED:" in redacted


def test_escapes_and_hidden_characters_hide_no_secret_in_json() -> None:
    escaped = "".join(f"\\u{ord(c):04x}" for c in f"password is {PASSWORD}")
    assert redact_bytes(f'{{"content": "{escaped}"}}'.encode())[1] == {"password": 1}
    assert redact_bytes(f'{{"content": "{TOKEN[:9]}\\u200b{TOKEN[9:]}"}}'.encode())[1] == {"github-token": 1}
    assert redact_bytes(f"{TOKEN[:9]}\u200b{TOKEN[9:]} no json".encode())[1] == {"github-token": 1}


def bytes_below(home: Path) -> bytes:
    """Return everything that is on disk: of the home, and what the host printed."""
    files = [path for path in home.rglob("*") if path.is_file()]
    names = "\n".join(str(path) for path in files).encode()
    return b"\n".join(
        [names, *(path.read_bytes() for path in files), (home.parent / f"{home.name}.stderr").read_bytes()]
    )


def assert_nowhere(home: Path, *secrets: str) -> None:
    data = bytes_below(home)
    for secret in secrets:
        for part in (secret, secret[: len(secret) // 2], secret[len(secret) // 2 :]):
            assert part.encode() not in data, secret


Clients = Callable[..., SyncClient]


def test_a_secret_in_a_note_is_redacted_everywhere(host: HostProcess, client: Clients) -> None:
    agent = client()
    note = agent.update_memory(f"The repository's token is {TOKEN}, the PIN is 4821\n# and", section="Access")
    assert note.neutralised == {"secrets": 2, "secrets/github-token": 1, "secrets/pin": 1, "headings": 1}
    assert "token is [REDACTED:github-token], the PIN is [REDACTED:pin]" in (agent.read_group_files().memory or "")
    (line,) = host.events("secret.redacted")
    assert (line["group"], line["sender"], line["member"]) == ("main", "researcher", "payload.content")
    assert line["kinds"] == {"github-token": 1, "pin": 1}
    host.stop()
    assert_nowhere(host.home, TOKEN)


def test_refuse_mode_saves_nothing_and_names_the_kind(make_host: HostFactory, client: Clients) -> None:
    host = make_host({"security.secrets": "refuse"}).start()
    agent = client()
    with pytest.raises(
        Invalid, match=r"payload\.content holds what looks like a credential \(github-token\)"
    ) as refused:
        agent.update_memory(f"the token is {TOKEN}")
    assert refused.value.field == "payload.content"
    for section, content in ((TOKEN, "below"), ("Wi-Fi password", PASSWORD)):
        with pytest.raises(Invalid, match="take it out"):
            agent.update_memory(content, section=section)
    for content, sender, tools in (
        (f"password: {PASSWORD}", None, None),
        ("fine", f"PIN: {4821}", None),
        ("fine", None, [TOKEN]),
    ):
        with pytest.raises(Invalid, match="nothing was saved"):
            agent.append_turn("user", content, sender=sender, tools_used=tools)
    assert agent.update_memory("The token is in the vault.").neutralised == {}
    assert agent.append_turn("user", "The password is in the vault.").turn == 1
    host.stop()
    assert_nowhere(host.home, TOKEN, PASSWORD)


REFUSED: dict[str, bytes] = {
    "no-json": f"password: {PASSWORD}, and no JSON, {TOKEN}".encode(),
    "no-request": orjson.dumps({"v": 1, "id": "x", "content": f"password: {PASSWORD} {TOKEN}"}),
    "wrong-types": orjson.dumps({"v": 1, "id": "x", "type": TOKEN, "payload": {"password": PASSWORD}}),
    "member": request("x", payload={TOKEN: 1, "password": PASSWORD}),
    "type": request("x", TOKEN, payload={"password": PASSWORD}),
    "session": request("x", session=f"{TOKEN} password is {PASSWORD}", content="x"),
    "too-large": request("x", content=f"password: {PASSWORD} {TOKEN} ".ljust(300_000)),
    "forbidden": request("x", content=f"password: {PASSWORD} {TOKEN}", group="other"),
}


def test_a_refused_secret_is_kept_nowhere(host: HostProcess) -> None:
    for why, data in REFUSED.items():
        assert RawSender(host.home, sender=why).make().ask("x", data)["ok"] is False, why
    host.stop()
    assert_nowhere(host.home, PASSWORD, TOKEN)


def test_the_exception_of_a_bug_shows_no_secret(make_host: HostFactory, stranger: RawSender) -> None:
    fault = (
        "from honeybadger_host.handlers import notes\n"
        "def fail(content, *rest): raise KeyError(content)\n"
        "notes.render_note = fail\n"
    )
    host = make_host({"security.secrets": "off", "ops.status.STATUS_SECONDS": 0.1}, source=fault).start()
    assert_refused(stranger.ask("x", request("x", content=f"the token is {TOKEN}")), "internal")
    told = str(wait_for(lambda: status_of(host.home).get("last_error"), what="the last error"))
    assert "[REDACTED:github-token]" in told
    (line,) = host.events("pipeline.failed")
    assert "KeyError" in line["exception"]
    assert TOKEN not in orjson.dumps(line).decode()
    host.stop()
