"""Dream pass 1: what is worth tidying up, what a model is asked about it, and what its answer proposes. Pure (RB9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, Final

from pydantic import Field

from honeybadger_agent.wire import GENERAL
from honeybadger_host.curation.answers import WrongAnswer, read_answer
from honeybadger_host.curation.candidates import Pair, identical
from honeybadger_host.curation.meaning import content_words
from honeybadger_host.curation.notes import NOTE_ID
from honeybadger_host.curation.proposal import MAX_OPERATIONS, Operation, Part
from honeybadger_host.curation.snapshot import FOLDED, Snapshot
from honeybadger_host.domain import Turn
from honeybadger_host.memory.edited import checked
from honeybadger_host.memory.feedback import Feedback
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.time_stamps import time_stamp

_MOST_TOKENS: Final = 12_000
"""Of the entries and notes that a model is shown; what is left is for another pass."""
_MOST_SAID: Final = 4_000
"""Tokens of turns."""
_LONGEST_TURN: Final = 2_000
"""Characters."""
_LONGEST_RESULT: Final = 65_536
_OURS: Final = frozenset(("n", "metadata", "gates", "state"))
"""Members of an operation that no model fills in."""


class _Answer(Part):
    operations: Annotated[tuple[dict[str, Any], ...], Field(strict=False, max_length=MAX_OPERATIONS)]


def folds(snapshot: Snapshot) -> list[Operation]:
    """Return merges of entries that say the same byte for byte, whatever their category: the oldest one's counts.

    Notes that are the same stand as they were written, with their authors and times: contexts show them once.
    """
    found: list[Operation] = []
    for ids in identical([item for item in snapshot.items if item.id in snapshot.entries]):
        free = tuple(each for each in ids if each not in snapshot.protected)
        oldest = snapshot.entries[ids[0]]
        if len(free) > 1 and len(oldest.content) <= _LONGEST_RESULT:
            category = snapshot.entries[free[0]].category
            found.append(Operation(n=1, op="merge", sources=free, result=oldest.content, category=category, why=FOLDED))
    return found


# ------------------------------------------------------------------------------------------------------- the question


def request_text(
    snapshot: Snapshot,
    picked: Iterable[tuple[Sequence[str], str]],
    feedback: Iterable[Feedback],
    turns: Mapping[tuple[str, int], Turn],
) -> str:
    """Return what a model is asked: why each was picked, the texts, feedback, and what people said.

    Args:
        picked: see `reasons`.
        turns: (session, number) -> turn of a person that may be about it.
    """
    shown: dict[str, str] = {}
    whys: list[str] = []
    room = _MOST_TOKENS
    for ids, reason in picked:
        new = {each: block(snapshot, each) for each in ids if each not in shown}
        needed = sum(map(estimate_tokens, new.values())) + estimate_tokens(reason)
        if needed > room:
            continue
        room -= needed
        shown |= new
        whys.append(reason)
    heard = [f"- {each.kind} by {each.by}{_place(each)}: {_short(each.content)}\n" for each in feedback]
    said = [turn_text(key, turn) for key, turn in sorted(turns.items(), key=lambda item: item[1].at)]
    return sections_text(
        {
            "Candidates": whys,
            "Entries and Notes": shown.values(),
            "Feedback": heard,
            "What People Said": _newest(said),
        }
    )


def sections_text(sections: Mapping[str, Iterable[str]]) -> str:
    """Return headings, each with its lines, as a model reads them."""
    return "\n".join(f"## {title}\n{''.join(lines) or '(none)' + chr(10)}" for title, lines in sections.items())


def block(snapshot: Snapshot, name: str) -> str:
    """Return an entry or a note as a model reads it."""
    if (entry := snapshot.entries.get(name)) is not None:
        about = [entry.category, *([f"tags {', '.join(entry.tags)}"] if entry.tags else [])]
        about += [f"title {entry.title}"] if entry.title else []
        about += [f"by {entry.by or 'a person'}"]
        about += [time_stamp(entry.created)] if entry.created is not None else []
        text = entry.content
    else:
        note = snapshot.notes[name]
        about, text = [f"note in {note.section}", f"by {note.author or 'a person'}"], note.text
    stays = f" ({snapshot.protected[name]}: it stays as it is)" if name in snapshot.protected else ""
    return f"[{name}] {'; '.join(about)}{stays}\n  {text.strip().replace(chr(10), chr(10) + '  ')}\n"


def read_in(snapshot: Snapshot, request: str) -> dict[str, str]:
    """Return id -> digest of what a request shows as it is now; another digest for what has changed since.

    An answer may be to a request of before a kill.
    """
    return {
        name: digest if block(snapshot, name) in request else "0" * 64
        for name, digest in snapshot.digests.items()
        if f"[{name}] " in request
    }


def subjects(snapshot: Snapshot, pairs: Iterable[Pair]) -> list[frozenset[str]]:
    """Return the words that both texts of each suspected contradiction have: what somebody may have spoken of."""
    texts = ([snapshot.texts[name] for name in pair.ids] for pair in pairs if pair.differs)
    return [words for one, other in texts if (words := content_words(one) & content_words(other))]


def reasons(
    snapshot: Snapshot, pairs: Iterable[Pair], unused: Iterable[str], over: Iterable[str]
) -> Iterator[tuple[Sequence[str], str]]:
    """Yield ids and why a model is to look at them, what matters most first; never what nothing could be done with.

    Args:
        unused: ids that no context had in 90 days.
        over: notes that no context has room for.
    """
    free = snapshot.digests.keys() - snapshot.protected.keys()
    for pair in pairs:
        both = " and ".join(pair.ids)
        if pair.differs and not free.isdisjoint(pair.ids):
            yield pair.ids, f"- may contradict each other: {both}: {pair.differs}\n"
        elif not pair.differs and free.issuperset(pair.ids):
            yield pair.ids, f"- near duplicates: {both}\n"
    for names, reason in ((unused, "no context had it in 90 days"), (over, "no context has room for it")):
        yield from (([name], f"- {reason}: {name}\n") for name in names if name in free)


def _place(feedback: Feedback) -> str:
    return f" on {feedback.session}#{feedback.turn}" if feedback.turn else f" in {feedback.session}"


def turn_text(key: tuple[str, int], turn: Turn) -> str:
    session, number = key
    return f"{session}#{number} [{turn.at:%Y-%m-%d %H:%M}] {turn.shown_name}: {_short(turn.content)}\n"


def _short(text: str) -> str:
    return text.strip()[:_LONGEST_TURN].replace("\n", "\n  ")


def _newest(lines: Sequence[str]) -> Sequence[str]:
    sizes = accumulate(estimate_tokens(line) for line in reversed(lines))
    return lines[len(lines) - sum(size <= _MOST_SAID for size in sizes) :]


# --------------------------------------------------------------------------------------------------------- the answer


def parse_operations(text: str, snapshot: Snapshot) -> list[Operation]:
    """Return the operations of a model's answer. Raises WrongAnswer: what is wrong; then all of it is."""
    return [_operation(row, n, snapshot) for n, row in enumerate(read_answer(text, _Answer).operations, 1)]


def _operation(row: dict[str, Any], n: int, snapshot: Snapshot) -> Operation:
    if (ours := sorted(row.keys() & _OURS)) or row.get("op") in ("write_history", "write_summary"):
        raise WrongAnswer(f"operation {n} has {', '.join(ours) or row['op']}, which is not asked for")
    try:
        operation = checked(Operation, {**row, "n": n})
    except ValueError as error:
        raise WrongAnswer(f"operation {n}: {error}") from None
    why = f"the model: {operation.why}" if operation.why else "the model proposes it"
    return operation.model_copy(update={"why": why, "category": _category(operation, snapshot)})


def _category(operation: Operation, snapshot: Snapshot) -> str | None:
    """Return the category of what an operation writes; None: it is a note, as all of its sources are."""
    if operation.category is not None or operation.op == "retire":
        return operation.category
    for source in operation.sources:
        if (entry := snapshot.entries.get(source)) is not None:
            return entry.category
    is_note = operation.op != "promote" and any(source.startswith(NOTE_ID) for source in operation.sources)
    return None if is_note else GENERAL
