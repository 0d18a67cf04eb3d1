"""Nobody in: each guard of the page against what it is there for, over real HTTP."""

import os
import socket
import stat
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from honeybadger_host.web.guards import SESSION_SECONDS, Access
from tests.hosting import run_cli
from tests.page import Browser, Page

NOTE = {"seq": "1"}


def next_link(page: Page) -> str:
    """Return the link that works next."""
    return str(orjson.loads((page.home / "data" / "page.json").read_bytes())["link"])


def test_without_a_session_no_page_is_shown(page: Page) -> None:
    stranger = page.browser(is_signed_in=False)
    for path in ("/", "/g/main/memory", "/health", "/events", "/nothing"):
        assert stranger.get(path).status == 401, path
    known = page.browser(link=next_link(page)).cookie or ""
    assert stranger.get("/", Cookie=known).status == 200
    assert stranger.get("/", Cookie=f"{known.partition('=')[0]}=guessed").status == 401
    assert stranger.post("/undo", NOTE).status == 401


def test_a_link_works_once_and_the_next_needs_access(page: Page) -> None:
    first, second = (page.browser(is_signed_in=False) for _ in range(2))
    link = next_link(page)
    assert first.enter(link).status == 200
    assert first.get("/").status == 200
    assert second.enter(link).status == 403
    assert second.get("/").status == 401
    assert stat.S_IMODE(os.stat(page.home / "data" / "page.json").st_mode) == 0o600
    told = run_cli("web", "--write", home=page.home).stdout.splitlines()
    assert "runs already" in told[1]
    assert second.enter(told[0]).status == 200


def test_a_cookie_is_for_its_browser_and_site(page: Page) -> None:
    link = next_link(page)
    given = page.browser(is_signed_in=False).enter(link).headers["Set-Cookie"].lower()
    for part in ("httponly", "samesite=strict", f"max-age={SESSION_SECONDS}", "path=/"):
        assert part in given


def test_two_homes_pages_do_not_sign_each_other_out(page: Page, browser: Browser, home: Path) -> None:
    with Page(home, ()) as other:
        second = other.browser()
        assert browser.cookie is not None
        assert second.cookie is not None
        both = f"{browser.cookie}; {second.cookie}"
        assert browser.cookie.partition("=")[0] != second.cookie.partition("=")[0]
        assert second.get("/health", Cookie=both).status == 503
        assert browser.get("/health", Cookie=both).status == 200
        assert second.get("/health", Cookie=browser.cookie).status == 401


def test_a_session_ends_after_twelve_hours() -> None:
    now = 0.0
    tokens: list[str] = []
    access = Access(lambda: now, tokens.append)
    cookie = access.enter(tokens[-1])
    assert cookie is not None
    now = SESSION_SECONDS - 1.0
    assert access.knows(cookie)
    now = SESSION_SECONDS + 0.0
    assert not access.knows(cookie)
    assert access.enter(tokens[0]) is None
    assert len({*tokens}) == 2


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:{port}", "localhost:1", "127.0.0.1", "", "[::2]:{port}"]
)
def test_another_name_for_the_loopback_gets_nothing(page: Page, browser: Browser, host: str) -> None:
    port = str(urlsplit(page.link).port)
    assert browser.get("/", Host=host.format(port=port)).status in (400, 403)
    assert browser.get("/", Host=f"localhost:{port}").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": None},
    ],
)
def test_a_change_from_anywhere_else_is_refused(browser: Browser, headers: dict[str, str | None]) -> None:
    assert browser.post("/undo", NOTE).status == 404  # there is no such change: it came through
    refused = browser.post("/undo", NOTE, **headers)
    assert (refused.status, "did not come from this page" in refused.words) == (403, True)


def test_no_answer_can_be_framed_or_run_foreign_code(page: Page, browser: Browser) -> None:
    stranger = page.browser(is_signed_in=False)
    for answer in (browser.get("/"), browser.get("/nothing"), stranger.get("/"), browser.get("/", Host="evil")):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Access-Control-Allow-Origin"] is None
        assert "<script>" not in answer.text
        assert " style=" not in answer.text
        assert " onclick=" not in answer.text


def test_a_page_without_write_changes_nothing(home: Path) -> None:
    with Page(home, ()) as page:
        browser = page.browser()
        for path in (
            "/undo",
            "/g/main/entry/edit",
            "/g/main/forget",
            "/g/main/talk/say",
            "/health/dead",
            "/g/main/rewind",
        ):
            refused = browser.post(path, NOTE)
            assert (refused.status, "only reads" in refused.words) == (403, True), path
        told = run_cli("web", "--write", home=home)
        assert (told.returncode, "only reads" in told.stderr) == (5, True)


def test_no_other_method_and_no_large_form_comes_through(browser: Browser) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        assert browser.send(method, "/", None, {}).status == 405, method
    assert browser.post("/undo", NOTE, Content_Length="99999999").status == 413
    assert browser.post("/undo", {"seq": "x" * 2_000_000}).status == 413


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static//etc/passwd"),
        *("/g/../../etc/memory", "/g/..%2f..%2fetc/memory", "/g/%2e%2e/memory", "/g/global/memory", "/g/none/memory"),
        *("/g/main/review/..%2f..%2fx", "/g/main/blame?id=../../../data/journal.db"),
        "/g/main/search?query=x&limit=%C2%B2",  # a digit, but no number
    ],
)
def test_looking_leaves_no_path_and_makes_no_group(page: Page, browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert answer.status in (404, 422)
    assert "root:" not in answer.text
    assert not {each.name for each in (page.home / "data" / "ipc").iterdir()} - {"main"}


def test_a_style_is_loaded_again_only_when_it_changed(page: Page) -> None:
    stranger = page.browser(is_signed_in=False)
    style = stranger.get("/static/style.css")
    assert (style.status, style.headers["Cache-Control"]) == (200, "no-cache")
    assert stranger.get("/static/style.css", If_None_Match=style.headers["ETag"]).status == 304


def test_a_flood_is_slowed_down(home: Path) -> None:
    with Page(home, ()) as page:
        stranger = page.browser(is_signed_in=False)
        assert 429 in {stranger.get("/").status for _ in range(200)}


def test_a_socket_is_for_its_user_alone(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.sock"
    with Page(home, ("--socket", str(path))) as page:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        browser = page.browser()
        assert browser.get("/health").status == 503
        assert browser.get("/health", Host="evil.example").status == 403
        page.stop()
    assert not path.exists()


def test_a_socket_on_which_somebody_listens_is_left_alone(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        refused = run_cli("web", "--socket", str(path), "--home", str(home))
    assert f"cannot listen on {path}: Address already in use; choose another --socket" in refused.stderr
    assert path.is_socket()


def test_it_listens_on_the_loopback_alone(page: Page) -> None:
    port = urlsplit(page.link).port
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    listening = [
        line.split()[1] for line in lines if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    ]
    assert listening == [f"0100007F:{port:04X}"]
