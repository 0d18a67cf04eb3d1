"""Dream pass 1: candidates for tidying up, the question about them, and the operations of its answer. Pure (RB9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

from pydantic import Field

from honeybadger_host.curation.answers import Answered
from honeybadger_host.curation.candidates import Pair, identical
from honeybadger_host.curation.passes import MAX_TOKENS
from honeybadger_host.curation.proposal import Operation
from honeybadger_host.curation.said import Refs, Turns, fact, newest_lines, numbered_turn, picked
from honeybadger_host.curation.sentences import sentences_of
from honeybadger_host.curation.snapshot import FOLDED, Snapshot
from honeybadger_host.memory.edited import Edited, Texts
from honeybadger_host.text.labels import each_once, folded
from honeybadger_host.text.neutralise import estimate_tokens, one_line
from honeybadger_host.text.time_stamps import time_stamp

PART_OF: Final = "part_of"  # member of an entry's metadata: id of the entry that it was taken from
ANTI_PATTERNS: Final = "anti-patterns"
ANTI_PATTERN: Final = "anti-pattern"
DOMAINS: Final = ("general", "code", "writing", "tools", "planning", "communication", "data")
_MAX_SAID_TOKENS: Final = 4_000  # of the turns in a request
_MAX_RESULT: Final = 65_536
# Share of words above which entries are joined without a person; with 0.5 careless joins cost 1.6 points of recall.
_JOINED_FROM: Final = 0.8
_MAX_JOIN: Final = 1_000  # characters of an entry joined without a person: longer ones are found worse
MAX_EACH: Final = 100  # joins, retirements, refinements, corrections and preferences that are read from an answer
_MAX_ALIASES: Final = 5
_MAX_ALIAS: Final = 60
_NUMBERED: Final = re.compile(r"^E(\d+) \[([^\]\s]+)\] ", re.MULTILINE)
_WORD: Final = re.compile(r"\w+")


class _Retired(Edited):
    of: Refs
    said: Refs = ()


class _Refined(Edited):
    of: Refs
    category: str | None = None
    tags: Texts = ()
    aliases: Texts = ()


class _AntiPattern(Edited):
    take: Refs
    domain: str = DOMAINS[0]


class DreamAnswer(Answered):
    """A model's answer: numbers of entries to join, to retire or to label differently, and of corrections."""

    join: Annotated[tuple[Refs, ...], Field(strict=False)] = ()
    retire: Annotated[tuple[_Retired, ...], Field(strict=False)] = ()
    refine: Annotated[tuple[_Refined, ...], Field(strict=False)] = ()
    anti_patterns: Annotated[tuple[_AntiPattern, ...], Field(strict=False)] = ()


def folds(snapshot: Snapshot) -> list[Operation]:
    """Return joins of entries with identical texts, in any category; the oldest entry gives the category.

    Identical notes stay as they were written, with their authors and times: contexts show them once.
    """
    found: list[Operation] = []
    for ids in identical([item for item in snapshot.items if item.id in snapshot.entries]):
        free = tuple(each for each in ids if each not in snapshot.protected)
        oldest = snapshot.entries[ids[0]]
        if len(free) > 1 and len(oldest.content) <= _MAX_RESULT:
            category = snapshot.entries[free[0]].category
            found.append(Operation(n=1, op="merge", sources=free, result=oldest.content, category=category, why=FOLDED))
    return found


# ------------------------------------------------------------------------------------------------------- the question


def request_text(snapshot: Snapshot, picked: Iterable[tuple[Sequence[str], str]], feedback: Turns, said: Turns) -> str:
    """Return the question to a model: reasons, numbered entries and notes, feedback, and people's turns.

    Args:
        picked: see `reasons`.
        said: turns of people that may be about them.
    """
    shown: dict[str, str] = {}
    numbers: dict[str, str] = {}
    whys: list[str] = []
    room = MAX_TOKENS
    for ids, reason in picked:
        new = {each: block(snapshot, each) for each in ids if each not in shown}
        needed = sum(map(estimate_tokens, new.values())) + estimate_tokens(reason)
        if needed > room:
            continue
        room -= needed
        shown |= new
        numbers |= {each: f"E{len(numbers) + n}" for n, each in enumerate(new, 1)}
        whys.append(f"- {reason}: {' and '.join(numbers[each] for each in ids)}\n")
    return sections_text(
        {
            "Candidates": whys,
            "Entries and Notes": [f"{numbers[each]} {text}" for each, text in shown.items()],
            "Categories": [f"{', '.join(snapshot.categories)}\n"],
            "Tags": [f"{', '.join(snapshot.tags)}\n"],
            "Feedback": numbered(feedback),
            "What People Said": newest_lines(numbered(said), _MAX_SAID_TOKENS),
        }
    )


def sections_text(sections: Mapping[str, Iterable[str]]) -> str:
    """Return headings with their lines, for a model."""
    return "\n".join(f"## {title}\n{''.join(lines) or '(none)' + chr(10)}" for title, lines in sections.items())


def numbered(turns: Turns) -> list[str]:
    """Return people's turns for a model, oldest first; numbers include the session: `main#12.3`."""
    ordered = sorted(turns.items(), key=lambda each: (each[1].at, each[0]))
    return [numbered_turn(turn, f"{session}#{number}", is_person=True) for (session, number), turn in ordered]


def block(snapshot: Snapshot, name: str) -> str:
    """Return an entry or a note, for a model."""
    if (entry := snapshot.entries.get(name)) is not None:
        about = [entry.category]
        about += [f"tags {', '.join(entry.tags)}"] if entry.tags else []
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
    """Return id -> digest of what a request shows; a digest of zeros when that has changed since.

    The request may be older than a restart.
    """
    return {
        name: digest if block(snapshot, name) in request else "0" * 64
        for name, digest in snapshot.digests.items()
        if f" [{name}] " in request
    }


def reasons(snapshot: Snapshot, pairs: Iterable[Pair], unused: Iterable[str]) -> Iterator[tuple[Sequence[str], str]]:
    """Yield ids and the reason to look at them, the most alike first; protected ones are left out.

    Args:
        unused: ids that no context had in 90 days.
    """
    for pair in pairs:
        is_part = any(entry.metadata.get(PART_OF) in pair.ids for entry in map(snapshot.entries.get, pair.ids) if entry)
        if not is_part and not snapshot.protected.keys() & {*pair.ids}:
            yield pair.ids, f"alike ({pair.differs})" if pair.differs else "the same words"
    for name in unused:
        if name not in snapshot.protected:
            yield [name], "no context had it in 90 days"


# --------------------------------------------------------------------------------------------------------- the answer


def operations_of(
    answer: DreamAnswer, request: str, snapshot: Snapshot, pairs: Iterable[Pair], turns: Turns
) -> list[Operation]:
    """Return the operations of an answer; unknown numbers are left out.

    Args:
        request: the question that was answered.
        pairs: the texts that code finds alike; only such entries are joined without a person.
        turns: feedback and people's turns.
    """
    names = {f"E{number}": name for number, name in _NUMBERED.findall(request)}
    known = {number: name for number, name in names.items() if name in snapshot.digests}
    answer = answer.model_copy(update={name: getattr(answer, name)[:MAX_EACH] for name in DreamAnswer.model_fields})
    likes = {each for pair in pairs if pair.share >= _JOINED_FROM for each in (pair.ids, pair.ids[::-1])}
    found: list[Operation] = []
    for refs in answer.join:
        ids = _named(refs, known)
        entries = sorted((snapshot.entries[one] for one in ids if one in snapshot.entries), key=snapshot.age)
        if len(entries) > 1:
            found += _joined(snapshot, [entry.id for entry in entries], likes)
    for gone in answer.retire:
        if ids := _named(gone.of, known):
            evidence = [each for pick in picked(gone.said, turns) for each in pick.evidence()]
            found.append(
                Operation(
                    n=1,
                    op="retire",
                    sources=ids,
                    evidence=tuple(evidence),
                    waits="only a person retires",
                    why="the model proposes it",
                )
            )
    for refined in answer.refine:
        for name in _named(refined.of, known):
            found += _refined(snapshot, name, refined)
    for pattern in answer.anti_patterns:
        domain = pattern.domain if pattern.domain in DOMAINS else DOMAINS[0]
        for pick in picked(pattern.take, turns):
            text, evidence = fact(pick, None)
            found.append(
                Operation(
                    n=1,
                    op="add",
                    result=text,
                    category=f"{ANTI_PATTERNS}/{domain}",
                    tags=(ANTI_PATTERN,),
                    metadata={"said_in": f"{pick.session}#{pick.turn.number}"},
                    evidence=tuple(evidence),
                    why="a person corrected this",
                )
            )
    return found


def _named(refs: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(known[ref] for ref in refs if ref in known))


def _joined(snapshot: Snapshot, ids: Sequence[str], likes: set[tuple[str, str]]) -> Iterator[Operation]:
    """Yield the join of entries, oldest first: all their sentences, each once."""
    result = joined([snapshot.entries[one].content for one in ids])
    is_found = all(any((one, other) in likes for other in ids) for one in ids)
    waits = "" if is_found else "code does not find them alike"
    if len(result) > _MAX_JOIN:
        waits = f"it would have {len(result)} characters, {_MAX_JOIN} at most are joined without you"
    if len(result) <= _MAX_RESULT:
        yield Operation(
            n=1,
            op="merge",
            sources=tuple(ids),
            result=result,
            category=snapshot.entries[ids[0]].category,
            waits=waits,
            why="the model says that they belong together",
        )


def joined(texts: Iterable[str]) -> str:
    """Return the sentences of texts, byte for byte, without those that repeat the words of an earlier one in order."""
    known: set[tuple[str, ...]] = set()
    lines: list[str] = []
    for text in texts:
        kept: list[tuple[int, int]] = []
        for begin, end in sentences_of(text):
            words = tuple(_WORD.findall(folded(text[begin:end])))
            if words and words in known:
                continue
            known.add(words)
            is_next = kept and not text[kept[-1][1] : begin].strip()
            kept[-1:] = [(kept[-1][0], end)] if is_next else [*kept[-1:], (begin, end)]
        lines += [text[begin:end] for begin, end in kept]
    return "\n".join(lines)


def _refined(snapshot: Snapshot, name: str, said: _Refined) -> Iterator[Operation]:
    """Yield new labels for an entry: tags that the group has or the entry says, and words to find it by."""
    entry = snapshot.entries.get(name)
    if entry is None:
        return
    words = folded(" ".join((entry.content, *snapshot.tags)))
    tags = each_once((*entry.tags, *(tag for tag in said.tags if folded(tag) in words)))
    found_by = [one_line(alias).text[:_MAX_ALIAS] for alias in said.aliases[:_MAX_ALIASES]]
    aliases = each_once((*entry.aliases, *found_by))
    category = said.category if said.category in snapshot.categories else entry.category
    if (tags, aliases, category) != (entry.tags, entry.aliases, entry.category):
        yield Operation(
            n=1, op="refine", sources=(name,), category=category, tags=tags, aliases=aliases, why="the model's labels"
        )
