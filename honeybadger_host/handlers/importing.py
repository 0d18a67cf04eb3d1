"""`import_records`: the operator imports the memory of another program (docs/decisions/034-in-and-out.md)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from honeybadger_agent.wire import MAX_LINE_CHARACTERS, ImportedEntry, ImportedTurn, ImportRecords, Refusal, SaveMemory
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.conversation import OFF, at_or_later, time_given, turn_in
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries.answers import cleaned
from honeybadger_host.handlers.redaction import Texts, with_neutralised
from honeybadger_host.handlers.speakers import taken_names
from honeybadger_host.journal.changes import Change, FileWritten, TurnAdded, WholeFiles
from honeybadger_host.journal.forgetting import Tombstones, read_tombstones
from honeybadger_host.memory.entries.entry import Entry, Origin, dump_entry, entry_file, place_of
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.memory.turn_log_store import dump_watermark, mark_in, watermark_file
from honeybadger_host.text.neutralise import one_line
from honeybadger_host.text.turn import Turn


@dataclass(slots=True)
class _Taken:
    """The records of a request that were taken so far.

    Args:
        taken_names: name that a turn is shown under -> whose it is.
    """

    forgotten: Tombstones
    taken_names: Mapping[str, str]
    changes: list[Change] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)
    neutralised: Counter[str] = field(default_factory=Counter)
    files: set[str] = field(default_factory=set)
    added: int = 0

    def check(self, text: str) -> None:
        """Raise Refusal if it repeats a forgotten text."""
        if self.forgotten.knows(text):
            raise Refusal("invalid", "it says what was forgotten in this group")


def import_records(deps: Dependencies, asked: Asked[ImportRecords], now: datetime) -> Outcome:
    """Import records. Forgotten texts do not come back."""
    payload = asked.payload
    if payload.turns and not deps.settings.conversation.enabled:
        raise Refusal("invalid", OFF, field="payload.turns")
    said = [turn.sender for turn in payload.turns or () if turn.sender != turn.role]
    names = taken_names(deps, asked.group, "", said)
    texts, taken = deps.texts(asked), _Taken(read_tombstones(deps.journal.path, asked.group), names)
    if payload.turns:
        _take_turns(deps, texts, payload.turns, taken, now)
    for entry in payload.entries or ():
        _take_entry(deps, texts.of_record(), entry, taken, now)
    known = len(payload.turns or ()) + len(payload.entries or ()) - taken.added - len(taken.refused)
    result = {"added": taken.added, "known": known, "refused": taken.refused}
    return Outcome(with_neutralised(result, taken.neutralised), tuple(taken.changes))


def _take_turns(deps: Dependencies, texts: Texts, turns: Sequence[ImportedTurn], taken: _Taken, now: datetime) -> None:
    asked = texts.asked
    before = number = deps.turn_logs.next_number(asked.group, asked.session) - 1
    last = deps.turn_logs.last_at(asked.group, asked.session)
    for said in turns:
        try:
            taken.check(said.content)
            if (whose := taken.taken_names.get(said.sender or "")) is not None:
                raise Refusal("forbidden", f"the name it is shown under, {said.sender!r}, {whose}")
            turn = _turn(texts.of_record(), said, number + 1, last, taken, now)
        except Refusal as refusal:
            taken.refused.append({"id": said.id, "why": refusal.message})
            continue
        number, last = turn.number, turn.at
        taken.added += 1
        taken.changes.append(TurnAdded(asked.group, asked.session, turn, dump_turn(turn, said.id)))
    if number > before:
        taken.changes += _marked(deps.whole_files, asked, before, number, now)


def _turn(texts: Texts, said: ImportedTurn, number: int, last: datetime | None, taken: _Taken, now: datetime) -> Turn:
    """Return a turn as the log keeps it. Raises Refusal."""
    speaker = one_line((said.sender or said.role).translate({ord("["): "(", ord("]"): ")"})).text
    named = said.model_copy(update={"sender": speaker[:MAX_LINE_CHARACTERS] or said.role})
    turn = replace(turn_in(texts, named, "turn"), number=number, at=at_or_later(said.at, last, now, "at"))
    taken.neutralised.update(texts.changed)
    return turn


def _marked(files: WholeFiles, asked: Asked, before: int, number: int, now: datetime) -> list[Change]:
    """Return the change that counts imported turns as consolidated, so that no model is paid to read them."""
    file = watermark_file(asked.group, asked.session)
    held = files.view(file)
    mark = mark_in(held)
    if mark.turn != before:
        return []  # earlier turns of the session still wait for consolidation
    made = dump_watermark(mark.model_copy(update={"turn": number, "at": now}))
    return [FileWritten(asked.group, "watermark", file, made, held)]


def _take_entry(deps: Dependencies, texts: Texts, said: ImportedEntry, taken: _Taken, now: datetime) -> None:
    group = texts.asked.group
    target = entry_file(group, deps.entry_files.place(group, said.category), said.id)
    try:
        taken.check(said.content)
        entry = _entry(texts, said, target, now)
        if target in taken.files or _is_there(deps, group, entry):
            return
    except Refusal as refusal:
        taken.refused.append({"id": said.id, "why": refusal.message.replace("payload.", "")})
        return
    taken.files.add(target)
    taken.added += 1
    taken.neutralised.update(texts.changed)
    taken.changes.append(FileWritten(group, "entry", target, dump_entry(entry), None))


def _is_there(deps: Dependencies, group: str, entry: Entry) -> bool:
    """Return whether an entry exists already. Raises Refusal if it exists with different content."""
    for file in deps.entry_files.standing(deps.whole_files, group, entry.id):
        with suppress(ValueError):  # it is not an entry, and keeps its place
            if deps.entry_files.parse(file, deps.whole_files.view(file) or b"").content == entry.content:
                return True
        raise Refusal("conflict", f"entry {entry.id} is there and says something else: it stays as it is")
    return False


def _entry(texts: Texts, said: ImportedEntry, target: str, now: datetime) -> Entry:
    """Return an entry with its texts cleaned as by `save_memory`. Raises Refusal."""
    members = said.model_dump(exclude={"id", "created", "updated"}, exclude_none=True)
    clean = cleaned(texts, SaveMemory(**members, origin="imported"))
    created = min(time_given(said.created, "created"), now) if said.created else now
    return Entry(
        id=said.id,
        category=place_of(target)[1],
        content=clean.content,
        tags=tuple(clean.tags or ()),
        created=created,
        updated=max(created, min(time_given(said.updated, "updated"), now)) if said.updated else created,
        metadata=clean.metadata or {},
        by=texts.asked.sender,
        title=clean.title,
        aliases=tuple(clean.aliases or ()),
        origin=Origin("imported", where=clean.origin_from),
    )
