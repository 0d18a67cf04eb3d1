"""Compaction: within the limits afterwards, whatever was in the document before (CM3)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.memory.compaction import HEADER, CompactionLimits, compact
from honeybadger_host.memory.session_document import HistoryEntry, SessionDocument, Task, dump_document, parse_document
from honeybadger_host.text.neutralise import estimate_tokens

NOW = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
DAY = 86_400
SEED = CompactionLimits()


def said(number: int, content: str | None = None, tokens: int | None = 5) -> HistoryEntry:
    role = "user" if number % 2 else "assistant"
    text = f"Message {number}" if content is None else content
    return HistoryEntry(timestamp=SECONDS + number, role=role, content=text, token_count=tokens)


def document(*history: HistoryEntry, summary: str = "", facts: tuple[str, ...] = ()) -> SessionDocument:
    return SessionDocument(session_id="s", recent_history=history, long_term_summary=summary, facts=facts)


def task(status: str, age: int, id_: str = "t") -> Task:
    return Task(
        id=id_,
        description="do it",
        status=status,
        progress=0.5,
        created_at=SECONDS - 10 * DAY,
        updated_at=SECONDS - age,
    )


def test_fifty_messages_stay_and_one_more_leaves_thirty() -> None:
    full = document(*(said(number) for number in range(50)))
    assert compact(full, NOW, SEED) == (full, 0)
    over = document(*(said(number) for number in range(51)))
    compacted, summarised = compact(over, NOW, SEED)
    assert compacted.recent_history == over.recent_history[21:]
    assert summarised == 21


def test_over_a_hundred_thousand_tokens_the_older_half_goes() -> None:
    over = document(*(said(number, tokens=10_001) for number in range(10)))
    compacted, _ = compact(over, NOW, SEED)
    assert compacted.recent_history == over.recent_history[5:]
    assert compacted.tokens == 50_005
    exactly = document(*(said(number, tokens=10_000) for number in range(10)))
    assert compact(exactly, NOW, SEED) == (exactly, 0)


def test_what_somebody_wrote_stays_above_the_lines() -> None:
    prose = "The user builds a memory host.\n\nIt is called Honeybadger."
    state = document(*(said(number) for number in range(51)), summary=prose)
    for _ in range(20):
        state, _ = compact(state, NOW, SEED)
        assert state.long_term_summary.startswith(f"{prose}\n\n{HEADER}\n")
        assert state.long_term_summary.count(HEADER) == 1
        state = state.model_copy(
            update={"recent_history": (*state.recent_history, *(said(number) for number in range(21)))}
        )


def test_facts_are_sorted_each_once() -> None:
    compacted, _ = compact(document(facts=("b", "a", " b ", "", "a", "B")), NOW, SEED)
    assert compacted.facts == ("B", "a", "b")
    assert compact(compacted, NOW, SEED) == (compacted, 0)


@pytest.mark.parametrize(
    ("status", "age", "stays"),
    [
        ("Running", 400 * DAY, True),
        ("Pending", 400 * DAY, True),
        ("Paused by me", 400 * DAY, True),
        ("Completed", DAY - 1, True),
        ("Completed", DAY, False),
        ("completed", 2 * DAY, False),
        ("Failed", DAY - 1, True),
        ("Failed", 2 * DAY, False),
        ("CANCELLED", 2 * DAY, False),
    ],
)
def test_running_tasks_stay_and_ended_ones_for_a_day(status: str, age: int, stays: bool) -> None:
    state = document().model_copy(update={"active_tasks": (task(status, age), task("Running", 0, "other"))})
    compacted, _ = compact(state, NOW, SEED)
    assert len(compacted.active_tasks) == 1 + stays
    assert (compacted == state) is stays


ANY_ENTRY = st.builds(
    HistoryEntry,
    timestamp=st.integers(0, 2**40),
    role=st.sampled_from(["user", "assistant", "tool"]) | st.text(max_size=60),
    content=st.text(max_size=300) | st.builds(str.__mul__, st.text(min_size=1, max_size=5), st.integers(0, 4000)),
    token_count=st.none() | st.integers(0, 5000),
)
ANY_TASK = st.builds(
    Task,
    id=st.text(max_size=5),
    description=st.text(max_size=5),
    status=st.sampled_from(["Running", "Completed", "failed"]) | st.text(max_size=9),
    updated_at=st.integers(SECONDS - 3 * DAY, SECONDS + DAY),
)
ANY_SUMMARY = st.text(max_size=200) | st.lists(
    st.sampled_from([HEADER, "", "- user: a", "[... 3 older messages left out, see the session's log]", "x" * 900]),
    max_size=9,
).map("\n".join)
ANY = st.builds(
    SessionDocument,
    session_id=st.just("s"),
    facts=st.lists(st.text(max_size=8), max_size=8).map(tuple),
    recent_history=st.lists(ANY_ENTRY, max_size=30).map(tuple),
    long_term_summary=ANY_SUMMARY,
    active_tasks=st.lists(ANY_TASK, max_size=5).map(tuple),
)
LIMITS = st.builds(
    CompactionLimits,
    st.integers(1, 20),
    st.integers(1, 25),
    st.integers(10, 8000),
    st.integers(500, 3000),
    st.just(DAY),
)


@given(ANY, LIMITS)
def test_any_document_is_within_its_limits_afterwards_and_stays(
    state: SessionDocument, limits: CompactionLimits
) -> None:
    after, summarised = compact(state, NOW, limits)
    kept = after.recent_history
    assert len(kept) <= limits.max_entries
    assert len(kept) + summarised == len(state.recent_history)
    assert bool(kept) == bool(state.recent_history)
    if kept != state.recent_history[len(state.recent_history) - len(kept) :]:
        [cut] = kept
        assert cut.token_count == estimate_tokens(cut.content)
    assert after.tokens <= limits.max_tokens
    assert len(after.long_term_summary) <= max(limits.max_summary_characters, 0)
    assert list(after.facts) == sorted(set(after.facts))
    assert compact(after, NOW, limits) == (after, 0)
    assert compact(after, NOW + timedelta(seconds=1), limits)[1] == 0
    assert parse_document(dump_document(after), "s") == after


@given(st.lists(ANY_ENTRY, min_size=1, max_size=30).map(tuple))
def test_nothing_is_lost_between_history_and_summary(history: tuple[HistoryEntry, ...]) -> None:
    limits = CompactionLimits(5, 3, 100_000, 100_000)
    compacted, summarised = compact(document(*history), NOW, limits)
    lines = compacted.long_term_summary.splitlines()
    assert len(lines) == (summarised + 1 if summarised else 0)
    for line, entry in zip(lines[1:], history, strict=False):
        assert line.startswith("- ")
        if entry.content.isascii() and entry.content.isprintable():
            assert line.removesuffix("...").rpartition(": ")[2].strip() in entry.content
