"""Dream pass 1: the question about candidates for tidying up, and the operations of its answer. Pure (RB9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

from pydantic import Field

from honeybadger_host.curation.asking import Answered
from honeybadger_host.curation.candidates import Pair, identical
from honeybadger_host.curation.passes import MAX_TOKENS
from honeybadger_host.curation.proposal import MAX_TEXT, ONLY_A_PERSON, Operation
from honeybadger_host.curation.said import (
    Refs,
    Turns,
    fact,
    newest_lines,
    numbered_turns,
    picked,
    sections_text,
    sentences_of,
)
from honeybadger_host.curation.snapshot import Snapshot
from honeybadger_host.memory.edited import Edited, Texts
from honeybadger_host.text.labels import each_once, folded
from honeybadger_host.text.neutralise import estimate_tokens, one_line
from honeybadger_host.text.time_stamps import time_stamp

PART_OF: Final = "part_of"  # member of an entry's metadata: id of the entry that it was taken from
ANTI_PATTERNS: Final = "anti-patterns"
ANTI_PATTERN: Final = "anti-pattern"
DOMAINS: Final = ("general", "code", "writing", "tools", "planning", "communication", "data")
_MAX_SAID_TOKENS: Final = 4_000  # tokens of people's turns in a question: a third of those for entries
# Share of common words from which entries are merged without a person; with 0.5 careless merges cost 1.6 points of
# recall.
_JOINED_FROM: Final = 0.8
_MAX_JOIN: Final = 1_000  # characters of an entry that is merged without a person: search finds longer ones less well
_MAX_ALIASES: Final = 5  # aliases of an entry that are taken from a model: with more, too many searches find it
_WORD: Final = re.compile(r"\w+")
FOLDED: Final = "the same text, byte for byte"  # reason of a merge by code, which does not change recall


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
    """A model's answer: numbers of entries to merge, to retire or to relabel, and of corrections."""

    join: Annotated[tuple[Refs, ...], Field(strict=False)] = ()
    retire: Annotated[tuple[_Retired, ...], Field(strict=False)] = ()
    refine: Annotated[tuple[_Refined, ...], Field(strict=False)] = ()
    anti_patterns: Annotated[tuple[_AntiPattern, ...], Field(strict=False)] = ()


def folds(snapshot: Snapshot) -> list[Operation]:
    """Return merges of entries with identical texts, of all categories; the category is that of the oldest.

    Identical notes are not merged, so that their authors and times stay: contexts show such notes once.
    """
    found: list[Operation] = []
    for ids in identical([item for item in snapshot.items if item.id in snapshot.entries]):
        free = tuple(each for each in ids if each not in snapshot.protected)
        oldest = snapshot.entries[ids[0]]
        if len(free) > 1 and len(oldest.content) <= MAX_TEXT:
            category = snapshot.entries[free[0]].category
            found.append(Operation(n=1, op="merge", sources=free, result=oldest.content, category=category, why=FOLDED))
    return found


# ------------------------------------------------------------------------------------------------------- the question


def request_text(snapshot: Snapshot, pairs: Iterable[Pair], feedback: Turns, said: Turns) -> tuple[str, dict[str, str]]:
    """Return the question to a model, and number (`E1`) -> id of the entries and notes in it.

    Args:
        pairs: similar texts; they are shown without protected ones, while there is room.
        feedback: people's feedback on answers.
        said: newest turns of people.
    """
    shown: dict[str, str] = {}
    candidates: list[str] = []
    room = MAX_TOKENS
    for pair in pairs:
        if snapshot.protected.keys() & {*pair.ids} or _is_part(snapshot, pair):
            continue
        new = {each: _block(snapshot, each) for each in pair.ids if each not in shown}
        needed = sum(map(estimate_tokens, new.values()))
        if needed <= room:
            room -= needed
            shown |= new
            numbers = [f"E{[*shown].index(each) + 1}" for each in pair.ids]
            candidates.append(f"- alike: {' and '.join(numbers)}\n")
    text = sections_text(
        {
            "Candidates": candidates,
            "Entries and Notes": [f"E{n} {text}" for n, text in enumerate(shown.values(), 1)],
            "Categories": [f"{', '.join(snapshot.categories)}\n"],
            "Tags": [f"{', '.join(snapshot.tags)}\n"],
            "Feedback": numbered_turns(feedback),
            "What People Said": newest_lines(numbered_turns(said), _MAX_SAID_TOKENS),
        }
    )
    return text if shown or feedback else "", {f"E{n}": name for n, name in enumerate(shown, 1)}


def _is_part(snapshot: Snapshot, pair: Pair) -> bool:
    """Return whether one of two entries was taken from the other."""
    entries = [snapshot.entries[each] for each in pair.ids if each in snapshot.entries]
    return any(entry.metadata.get(PART_OF) in pair.ids for entry in entries)


def _block(snapshot: Snapshot, name: str) -> str:
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
    return f"[{name}] {'; '.join(about)}\n  {text.strip().replace(chr(10), chr(10) + '  ')}\n"


# --------------------------------------------------------------------------------------------------------- the answer


def operations_of(
    answer: DreamAnswer, given: Mapping[str, str], snapshot: Snapshot, pairs: Iterable[Pair], turns: Turns
) -> Iterator[Operation]:
    """Yield the operations of an answer; unknown numbers are left out.

    Args:
        given: number -> id, see `request_text`.
        pairs: the texts that code finds similar; only such entries are merged without a person.
        turns: feedback and people's turns.
    """
    likes = {each for pair in pairs if pair.share >= _JOINED_FROM for each in (pair.ids, pair.ids[::-1])}
    for refs in answer.join:
        yield from _joined(snapshot, _named(refs, given), likes)
    for gone in answer.retire:
        if ids := _named(gone.of, given):
            evidence = tuple(each for pick in picked(gone.said, turns) for each in pick.evidence())
            why = "the model proposes it"
            yield Operation(n=1, op="retire", sources=ids, evidence=evidence, waits=ONLY_A_PERSON, why=why)
    for refined in answer.refine:
        for name in _named(refined.of, given):
            yield from _refined(snapshot, name, refined)
    for pattern in answer.anti_patterns:
        domain = pattern.domain if pattern.domain in DOMAINS else DOMAINS[0]
        for pick in picked(pattern.take, turns):
            text, quotes = fact(pick, None)
            yield Operation(
                n=1,
                op="add",
                result=text,
                category=f"{ANTI_PATTERNS}/{domain}",
                tags=(ANTI_PATTERN,),
                metadata={"said_in": f"{pick.session}#{pick.turn.number}"},
                evidence=tuple(quotes),
                why="a person corrected this",
            )


def _named(refs: Iterable[str], given: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(given[ref] for ref in refs if ref in given))


def _joined(snapshot: Snapshot, ids: Sequence[str], likes: set[tuple[str, str]]) -> Iterator[Operation]:
    """Yield the merge of at least two entries: all their sentences, those of the oldest first, each once."""
    entries = sorted((snapshot.entries[one] for one in ids if one in snapshot.entries), key=snapshot.age)
    result = joined(entry.content for entry in entries)
    if len(entries) < 2 or len(result) > MAX_TEXT:
        return
    names = tuple(entry.id for entry in entries)
    is_found = all(any((one, other) in likes for other in names) for one in names)
    waits = "" if is_found else "code does not find these entries similar"
    if len(result) > _MAX_JOIN:
        waits = f"the merged entry has {len(result)} characters: one of more than {_MAX_JOIN} needs your decision"
    category, why = entries[0].category, "the model says that they belong together"
    yield Operation(n=1, op="merge", sources=names, result=result, category=category, waits=waits, why=why)


def joined(texts: Iterable[str]) -> str:
    """Return the sentences of texts, byte for byte, without sentences that have the words of an earlier one."""
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
    """Yield new labels for an entry: tags that the group uses or the entry's text has, and further names."""
    entry = snapshot.entries.get(name)
    if entry is None:
        return
    words = folded(" ".join((entry.content, *snapshot.tags)))
    tags = each_once((*entry.tags, *(tag for tag in said.tags if folded(tag) in words)))
    aliases = each_once((*entry.aliases, *(one_line(alias).text for alias in said.aliases[:_MAX_ALIASES])))
    category = said.category if said.category in snapshot.categories else entry.category
    if (tags, aliases, category) != (entry.tags, entry.aliases, entry.category):
        why = "the model's labels"
        yield Operation(n=1, op="refine", sources=(name,), category=category, tags=tags, aliases=aliases, why=why)
