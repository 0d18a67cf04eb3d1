"""`import_records`: the operator imports the memory of another program (docs/decisions/034-in-and-out.md)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from honeybadger_agent.wire import MAX_LINE_CHARACTERS, ImportedEntry, ImportedTurn, ImportRecords, Refusal, SaveMemory
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.conversation import OFF, at_or_later, time_given, turn_in
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.entries.answers import cleaned
from honeybadger_host.handlers.redaction import Texts, with_neutralised
from honeybadger_host.handlers.speakers import taken_names
from honeybadger_host.journal.changes import Change, FileWritten, TurnAdded, WholeFiles
from honeybadger_host.journal.forgetting import read_tombstones
from honeybadger_host.memory.entries.entry import Entry, Origin, dump_entry, entry_file, place_of
from honeybadger_host.memory.turn_log import dump_turn
from honeybadger_host.memory.turn_log_store import dump_watermark, mark_in, watermark_file
from honeybadger_host.text.neutralise import one_line


def import_records(deps: Dependencies, asked: Asked[ImportRecords], now: datetime) -> Outcome:
    """Import records. Forgotten texts do not come back."""
    turns, entries = asked.payload.turns or (), asked.payload.entries or ()
    if turns and not deps.settings.conversation.enabled:
        raise Refusal("invalid", OFF, field="payload.turns")
    names = taken_names(deps, asked.group, "", [turn.sender for turn in turns if turn.sender != turn.role])
    texts, forgotten = deps.texts(asked), read_tombstones(deps.journal.path, asked.group)
    imported = deps.turn_logs.imported(asked.group, asked.session) if turns else set()
    added: list[TurnAdded] = []
    written: dict[str, FileWritten] = {}
    refused: list[dict[str, str]] = []
    neutralised: Counter[str] = Counter()
    for said in (*turns, *entries):
        if said.id in imported:
            continue
        own = texts.of_record()
        try:
            if forgotten.knows(said.content):
                raise Refusal("invalid", "it says what was forgotten in this group")
            if isinstance(said, ImportedTurn):
                added.append(_turn(deps, own, said, added, names, now))
                imported.add(said.id)
            else:
                change = _entry(deps, own, said, now)
                if change is None or change.file in written:
                    continue
                written[change.file] = change
        except Refusal as refusal:
            refused.append({"id": said.id, "why": refusal.message.replace("payload.", "")})
            continue
        neutralised.update(own.changed)
    known = len(turns) + len(entries) - len(added) - len(written) - len(refused)
    result = {"added": len(added) + len(written), "known": known, "refused": refused}
    marked = _marked(deps.whole_files, asked, added, now) if added else ()
    return Outcome(with_neutralised(result, neutralised), (*added, *marked, *written.values()))


def _turn(
    deps: Dependencies,
    texts: Texts,
    said: ImportedTurn,
    added: Sequence[TurnAdded],
    names: Mapping[str, str],
    now: datetime,
) -> TurnAdded:
    """Return a turn as the log keeps it. Raises Refusal.

    Args:
        added: the turns before it.
        names: name that a turn is shown under -> whose it is.
    """
    group, session = texts.asked.group, texts.asked.session
    if (whose := names.get(said.sender or "")) is not None:
        raise Refusal("forbidden", f"the name it is shown under, {said.sender!r}, {whose}")
    speaker = one_line((said.sender or said.role).translate({ord("["): "(", ord("]"): ")"})).text
    named = said.model_copy(update={"sender": speaker[:MAX_LINE_CHARACTERS] or said.role})
    number = deps.turn_logs.next_number(group, session) + len(added)
    last = added[-1].turn.at if added else deps.turn_logs.last_at(group, session)
    turn = replace(turn_in(texts, named, "turn"), number=number, at=at_or_later(said.at, last, now, "at"))
    # the key is for later requests of the batch; the line has the id in place of a request's
    return TurnAdded(group, session, replace(turn, key=said.id), dump_turn(turn, said.id))


def _marked(files: WholeFiles, asked: Asked, added: Sequence[TurnAdded], now: datetime) -> list[Change]:
    """Return the change that counts imported turns as consolidated, so that no model is paid to read them."""
    file = watermark_file(asked.group, asked.session)
    held = files.view(file)
    mark = mark_in(held)
    if mark.turn != added[0].turn.number - 1:
        return []  # earlier turns of the session still wait for consolidation
    made = dump_watermark(mark.model_copy(update={"turn": added[-1].turn.number, "at": now}))
    return [FileWritten(asked.group, "watermark", file, made, held)]


def _entry(deps: Dependencies, texts: Texts, said: ImportedEntry, now: datetime) -> FileWritten | None:
    """Return an entry's file, with its texts cleaned as by `save_memory`; None if it is there.

    Raises Refusal, also if it is there with another text.
    """
    group = texts.asked.group
    target = entry_file(group, deps.entry_files.place(group, said.category), said.id)
    members = said.model_dump(exclude={"id", "created", "updated"}, exclude_none=True)
    clean = cleaned(texts, SaveMemory(**members, origin="imported"))
    created = min(time_given(said.created, "created"), now) if said.created else now
    entry = Entry(
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
    for file in deps.entry_files.standing(deps.whole_files, group, entry.id):
        with suppress(ValueError):  # it is not an entry, and keeps its place
            if deps.entry_files.parse(file, deps.whole_files.view(file) or b"").content == entry.content:
                return None
        raise Refusal("conflict", f"entry {entry.id} is there and says something else: it stays as it is")
    return FileWritten(group, "entry", target, dump_entry(entry), None)
