"""Dreams: the passes over all memory of a group, and the groups for which one is due (RB9, RB10).

The first pass merges, retires and relabels entries, and keeps corrections. The second infers preferences from people's
newest turns: a model names the turns that show a preference, and their sentences become its text.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import anyio.to_thread
import orjson
from pydantic import Field

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_host.curation.asking import FAILED, Answer, Answered, Question, read_answer, read_directive
from honeybadger_host.curation.candidates import Pair, alike
from honeybadger_host.curation.gates import STRENGTH
from honeybadger_host.curation.passes import (
    BEGINNING,
    MAX_TOKENS,
    MAX_TOKENS_MORE,
    PassDependencies,
    Snapshot,
    newest_turns,
    take,
)
from honeybadger_host.curation.proposal import MAX_TEXT, ONLY_A_PERSON, Operation, Proposal, counts_of
from honeybadger_host.curation.said import (
    Refs,
    Turns,
    fact,
    newest_lines,
    numbered_turns,
    picked,
    runs_of,
    sections_text,
    sentences_of,
)
from honeybadger_host.files.file_cache import signature_of
from honeybadger_host.files.safe_files import Signature
from honeybadger_host.log import log
from honeybadger_host.memory.edited import Edited, Texts
from honeybadger_host.memory.entries.entry import Entry
from honeybadger_host.memory.feedback import FEEDBACK_SESSION, as_turn, feedback_file, read_feedback
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.turn_log_store import dreamt_file, inferred_file
from honeybadger_host.search.sources import groups_of, is_archive, sources
from honeybadger_host.text.labels import each_once, folded, is_below
from honeybadger_host.text.neutralise import estimate_tokens, one_line
from honeybadger_host.work.times import Cron, next_run

_FEEDBACK_OF = timedelta(days=7)  # RB13
# Words about security, credentials and money: such a preference needs permission. Too often is better than too rarely.
_SENSITIVE = re.compile(
    rf"\b(?:{'|'.join(files(__package__).joinpath('sensitive_words.txt').read_text('utf-8').split())})\b|[€$£¥]"
    "|密码|密碼|安全|权限|钱|付款|支付|银行|账户|发票|价格|购买|パスワード|秘密|権限|お金|支払|銀行|口座|請求|価格|購入",
    re.IGNORECASE,
)
PART_OF = "part_of"  # member of an entry's metadata: id of the entry that it was taken from
DOMAINS = ("general", "code", "writing", "tools", "planning", "communication", "data")
# Share of common words from which entries are merged without a person; with 0.5 careless merges cost 1.6 points of
# recall.
_JOINED_FROM = 0.8
_MAX_ALIASES = 5  # aliases of an entry that are taken from a model: with more, too many searches find it
_WORD = re.compile(r"\w+")


@dataclass(slots=True)
class DueDreams:
    """Finds the groups that are due to dream: by schedule, if there is something new.

    Args:
        ledger: a group that never dreamt counts as if it had dreamt at its `known_since`.
        _looked_at: time of the last look at the groups.
    """

    home: Path
    schedule: Cron
    ledger: InjectionLedger
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _looked_at: datetime = BEGINNING

    def groups(self) -> list[str]:
        """Return the groups that are due: at the first look, and at each time of the schedule. One thread at a time."""
        now = self.clock()
        self._looked_at = min(self._looked_at, now)
        if self._looked_at > BEGINNING and not self._is_time(self._looked_at, now):
            return []
        self._looked_at = now
        names = [name for name in groups_of(self.home) if name != GLOBAL_GROUP and not is_archive(name)]
        return [name for name in names if self._is_due(name, now)]

    def _is_time(self, since: datetime, now: datetime) -> bool:
        """Return whether a time of the schedule has passed since a moment; missed times count once."""
        run = next_run(self.schedule, since)
        return run is not None and run <= now

    def _is_due(self, group: str, now: datetime) -> bool:
        marked = _newest([signature_of(f"{self.home}/{dreamt_file(group)}")])
        dreamt = BEGINNING if marked > now else marked  # a mark in the future is by a clock that was ahead
        if not self._is_time(self.ledger.known_since() if dreamt == BEGINNING else dreamt, now):
            return False
        feedback = signature_of(f"{self.home}/{feedback_file(group)}")
        return _newest([feedback, *(signature for _, signature in sources(self.home, group, set()))]) > dreamt


def _newest(signatures: Iterable[Signature | None]) -> datetime:
    """Return the time of the last change of some files, `BEGINNING` if none exists."""
    times = (datetime.fromtimestamp(each.mtime_ns / 1e9, UTC) for each in signatures if each is not None)
    return max(times, default=BEGINNING)


class Dreamt(NamedTuple):
    """The proposals of a dream, the numbers of entries and notes looked at and left out, and a summary for people."""

    proposals: Sequence[Proposal]
    looked_at: int
    left_out: int
    told: str


async def dream(uses: PassDependencies, group: str) -> Dreamt:
    """Make a dream of a group.

    Raises OverBudget, ModelFailed, WrongAnswer, WorldFailed, FileProblem: nothing was changed.
    """
    snapshot = await anyio.to_thread.run_sync(take, uses, group)
    said = await anyio.to_thread.run_sync(newest_turns, uses, group)
    made = [await _tidy(uses, snapshot, said)]
    told = ""
    if uses.settings.dream.preferences and uses.settings.conversation.enabled and uses.asker.open_model is not None:
        try:
            made.append(await _infer(uses, snapshot, said))
        except FAILED as error:
            told = f"no preferences are inferred: {error}"  # the first pass keeps its changes
            log.warning("preferences.failed", group=group, why=str(error), now_what="the next dream asks again")
    done = [each for each in made if each is not None]
    return Dreamt(done, len(snapshot.texts), snapshot.left_out, _told_of(done, told))


async def _tidy(uses: PassDependencies, snapshot: Snapshot, said: Turns) -> Proposal | None:
    """Make the first pass. A source that changes while the model thinks is found when the proposal is applied."""
    feedback = await anyio.to_thread.run_sync(_feedback, uses, snapshot.group)
    turns = {**feedback, **said}
    pairs = await anyio.to_thread.run_sync(alike, snapshot.texts)
    text, given = request_text(snapshot, pairs, feedback, said)
    question = Question(snapshot.group, "dream-", "dream", read_directive(uses.files, "dream"), text)

    def propose(answer: Answer | None) -> Iterator[Operation]:
        yield from folds(snapshot)
        if answer is not None:
            yield from operations_of(read_answer(answer.text, DreamAnswer), given, snapshot, pairs, turns)

    return await uses.make(question, snapshot.known(turns, uses.is_person), propose, earlier=snapshot.earlier)


def _feedback(uses: PassDependencies, group: str) -> Turns:
    """Return the feedback of the last days, as turns."""
    turns = map(as_turn, read_feedback(uses.home, group, datetime.now(UTC) - _FEEDBACK_OF))
    return {(FEEDBACK_SESSION, turn.number): turn for turn in turns if uses.is_person(turn)}


async def _infer(uses: PassDependencies, snapshot: Snapshot, turns: Turns) -> Proposal | None:
    """Make the second pass; None if nothing was said since the last one."""
    mark = uses.watermarks.of(inferred_file(snapshot.group))
    newest = max((turn.at for turn in turns.values()), default=None)
    if newest is None or (mark is not None and mark.at is not None and newest <= mark.at):
        return None
    known = [each.content for each in snapshot.entries.values() if is_below(each.category, "user-preferences")]
    sections = {
        "Known Already": newest_lines([f"- {text}\n" for text in known], MAX_TOKENS),
        "What People Said": newest_lines(numbered_turns(turns), MAX_TOKENS),
    }
    question = Question(
        snapshot.group,
        "preferences-",
        "preferences",
        read_directive(uses.files, "pref-dream"),
        sections_text(sections),
    )

    def propose(answer: Answer | None) -> Iterator[Operation]:
        for said in read_answer(answer.text, PreferenceAnswer).preferences if answer is not None else ():
            yield from preference_of(said, turns)

    return await uses.make(
        question, snapshot.known(turns, uses.is_person), propose, until=newest, earlier=snapshot.earlier
    )


def _told_of(made: Sequence[Proposal], more: str) -> str:
    lines = []
    for proposal in made:
        done = ", ".join(f"{count} {state}" for state, count in counts_of(proposal.operations).items() if count)
        lines.append(f"{proposal.kind} {proposal.id} by {proposal.by}: {done}")
    return "\n".join([*(lines or ["there is nothing to do"]), *([more] if more else [])])


# ----------------------------------------------------------------------------------------------------- the first pass


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
    free: defaultdict[str, list[Entry]] = defaultdict(list)
    for name, entry in snapshot.entries.items():
        if name not in snapshot.protected:
            free[entry.content].append(entry)
    return [
        Operation(
            n=1,
            op="merge",
            sources=tuple(entry.id for entry in same),
            result=text,
            category=same[0].category,
            why="the same text, byte for byte",
        )
        for text, same in free.items()
        if len(same) > 1 and len(text) <= MAX_TEXT
    ]


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
        entries = [snapshot.entries[each] for each in pair.ids if each in snapshot.entries]
        is_part = any(entry.metadata.get(PART_OF) in pair.ids for entry in entries)  # one was taken from the other
        if is_part or snapshot.protected.keys() & {*pair.ids}:
            continue
        new = {each: _shown(snapshot, each) for each in pair.ids if each not in shown}
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
            "What People Said": newest_lines(numbered_turns(said), MAX_TOKENS_MORE),
        }
    )
    return text if shown or feedback else "", {f"E{n}": name for n, name in enumerate(shown, 1)}


def _shown(snapshot: Snapshot, name: str) -> str:
    """Return an entry or a note, for a model, as one line of JSON."""
    members: dict[str, object] = {"id": name}
    if (note := snapshot.notes.get(name)) is not None:
        members |= {"note_in": note.section, "by": note.author, "text": note.text}
    else:
        entry = snapshot.entries[name]
        members |= {"category": entry.category, "tags": entry.tags, "title": entry.title, "by": entry.by}
        members |= {"created": entry.created, "text": entry.content}
    return f"{orjson.dumps({member: value for member, value in members.items() if value}).decode()}\n"


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
            yield Operation(
                n=1,
                op="retire",
                sources=ids,
                evidence=tuple(each for pick in picked(gone.said, turns) for each in pick.evidence()),
                waits=ONLY_A_PERSON,
                why="the model proposes it",
            )
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
                category=f"anti-patterns/{domain}",
                tags=("anti-pattern",),
                metadata={"said_in": f"{pick.session}#{pick.turn.number}"},
                evidence=tuple(quotes),
                why="a person corrected this",
            )


def _named(refs: Iterable[str], given: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(given[ref] for ref in refs if ref in given))


def _joined(snapshot: Snapshot, ids: Sequence[str], likes: set[tuple[str, str]]) -> Iterator[Operation]:
    """Yield the merge of at least two entries: all their sentences, those of the oldest first, each once."""
    entries = [entry for name, entry in snapshot.entries.items() if name in ids]
    result = joined(entry.content for entry in entries)
    if len(entries) < 2 or len(result) > MAX_TEXT:
        return
    names = tuple(entry.id for entry in entries)
    is_found = all(any((one, other) in likes for other in names) for one in names)
    yield Operation(
        n=1,
        op="merge",
        sources=names,
        result=result,
        category=entries[0].category,
        waits="" if is_found else "code does not find these entries similar",
        why="the model says that they belong together",
    )


def joined(texts: Iterable[str]) -> str:
    """Return the sentences of texts, byte for byte, without sentences that have the words of an earlier one."""
    known: set[tuple[str, ...]] = set()
    lines: list[str] = []
    for text in texts:
        kept: list[int] = []
        for number, (begin, end) in enumerate(sentences_of(text)):
            words = tuple(_WORD.findall(folded(text[begin:end])))
            if not words or words not in known:
                kept.append(number)
            known.add(words)
        lines += runs_of(text, kept)
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
        yield Operation(
            n=1,
            op="refine",
            sources=(name,),
            category=category,
            tags=tags,
            aliases=aliases,
            why="the model's labels",
        )


# ---------------------------------------------------------------------------------------------------- the second pass


class Preference(Edited):
    """The turns that show a preference, and its strength."""

    take: Refs
    strength: Literal["strong", "mild", "casual"]
    requires_user_permission: bool = False


class PreferenceAnswer(Edited):
    """A model's answer."""

    preferences: Annotated[tuple[Preference, ...], Field(strict=False)]


def preference_of(said: Preference, turns: Turns) -> Iterator[Operation]:
    """Yield an `add` in the words of the turns that show a preference, if there are such turns."""
    facts = [fact(pick, None) for pick in picked(said.take, turns)]
    texts = list(dict.fromkeys(text for text, _ in facts))
    metadata = {"source": "inferred", STRENGTH: said.strength}
    if said.requires_user_permission or any(map(_SENSITIVE.search, texts)):
        metadata["requires_user_permission"] = "true"
    if facts:
        yield Operation(
            n=1,
            op="add",
            result="\n".join(texts),
            category="user-preferences/inferred",
            tags=("inferred",),
            metadata=metadata,
            evidence=tuple(each for _, evidence in facts for each in evidence),
            why=f"a {said.strength} preference",
        )
