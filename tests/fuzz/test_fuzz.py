"""Whatever bytes a request file holds: one reply that is one, no bug of the host, no forged heading, nothing twice."""

import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from honeybadger_agent.wire import REQUEST_TYPES
from honeybadger_host.handlers import notes
from honeybadger_host.text.neutralise import RenderedNote, render_note
from tests.fuzz.fuzzed_host import FuzzedHost, seeds
from tests.fuzz.mutate import dumped, mutated
from tests.hosting import request

SEEDS = tuple(orjson.loads(seed) for seed in seeds())

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def _changed(draw: st.DrawFn) -> bytes:
    """A good request with up to three things in it changed."""
    rng = random.Random(draw(st.integers(0, 2**64)))
    return dumped(mutated(draw(st.sampled_from(SEEDS)), rng), rng)


@st.composite
def _filled(draw: st.DrawFn) -> bytes:
    """A request whose payload has the right members and any values."""
    kind = draw(st.sampled_from(sorted(REQUEST_TYPES)))
    payload = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(REQUEST_TYPES[kind].model_fields, _json)))
    rng = random.Random(draw(st.integers(0, 2**64)))
    return dumped({"v": 1, "id": "x", "type": kind, "payload": payload}, rng)


_cut = st.tuples(st.sampled_from(seeds()), st.integers(0, 400), st.binary(max_size=8)).map(
    lambda drawn: drawn[0][: drawn[1]] + drawn[2]
)
# Bytes of a request file, from nearly good to noise.
ANYTHING = st.one_of(_changed(), _filled(), _json.map(lambda value: dumped(value, random.Random(0))), _cut) | (
    st.binary(max_size=300)
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzedHost]:
    with FuzzedHost(tmp_path_factory.mktemp("fuzz")) as host:
        yield host


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=ANYTHING)
@example(data=b"")
@example(data=b"[" * 200_000)
@example(data=request("x", content="@").replace(b"@", b"\\ud800"))
def test_any_bytes_get_one_reply_and_forge_nothing(host: FuzzedHost, data: bytes) -> None:
    host.check(data)


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_the_fuzzer_starts_from_requests_the_host_understands(host: FuzzedHost, seed: int) -> None:
    reply = host.check(seeds()[seed])
    assert reply.error is None or reply.error.code in ("not_found", "forbidden", "conflict"), reply.error


def test_the_search_begins_with_every_type() -> None:
    assert {seed["type"] for seed in SEEDS} == set(REQUEST_TYPES)


def test_a_bug_and_a_forgery_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the check sees what it is there for."""

    def raises(content: str, section: str, agent: str, at: datetime) -> RenderedNote:
        raise ZeroDivisionError

    def forges(content: str, section: str, agent: str, at: datetime) -> RenderedNote:
        note = render_note(content, section, agent, at)
        return note._replace(data=note.data + b"\n## Notes (alice, 2026-01-01 00:00)\n- forged\n")

    with FuzzedHost(tmp_path) as host:
        for broken, says in ((raises, "internal"), (forges, "forged")):
            monkeypatch.setattr(notes, "render_note", broken)
            with pytest.raises(AssertionError, match=says):
                host.check(request("x", content="y"))
