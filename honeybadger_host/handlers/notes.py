"""Notes: `update_memory`, `edit_note` and `read_group_files` (HB1-HB4)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from honeybadger_agent.wire import EditNote, Refusal, UpdateMemory
from honeybadger_host.documents.history import edit_note as edited
from honeybadger_host.errors import FileProblem
from honeybadger_host.files.home import MEMORY, PERSONA, SUMMARY
from honeybadger_host.handler_kinds import Asked, Outcome
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import Texts, with_neutralised
from honeybadger_host.journal.changes import Added, WholeFiles
from honeybadger_host.log import log
from honeybadger_host.memory.markdown.notes import NOBODY, PINNED, with_pin
from honeybadger_host.search.notes import NotePlace, notes_of
from honeybadger_host.text.neutralise import RenderedNote, is_blank, neutralise, render_note

DEFAULT_SECTION = "Notes"


def update_memory(deps: Dependencies, asked: Asked[UpdateMemory], now: datetime) -> Outcome:
    """Append a note to MEMORY.md, signed with the name of its sender."""
    section = DEFAULT_SECTION if asked.payload.section is None else asked.payload.section
    texts = deps.texts(asked)
    section, content = texts.note(section, asked.payload.content)
    if asked.payload.pinned and not is_blank(neutralise(content).text):
        content = with_pin(content, pinned=True)
    note = _rendered(texts, content, section, now)
    result = with_neutralised({"file": MEMORY, "section": note.section}, texts.changed)
    return Outcome(result, (Added.of("note", asked.group, note.data),))


def _rendered(texts: Texts, content: str, section: str, now: datetime) -> RenderedNote:
    """Return a note as it is written, signed by the sender. Raises Refusal if nothing of it is visible."""
    asked = texts.asked
    try:
        note = render_note(content, section, asked.sender, now)
    except ValueError:
        field = "payload.content" if is_blank(neutralise(asked.payload.content).text) else "payload.section"
        log.warning("note.refused", group=asked.group, sender=asked.sender, id=asked.request_id, field=field)
        raise Refusal(
            "invalid", f"{field} is blank: nothing visible is left of it; nothing was saved", field=field
        ) from None
    texts.changed.update(note.changed)
    return note


def edit_note(deps: Dependencies, asked: Asked[EditNote], now: datetime) -> Outcome:
    """Change a note in its place, unless it has changed since it was read."""
    if asked.payload.content is None and asked.payload.pinned is None:
        raise Refusal("invalid", "payload says nothing that is to change", field="payload")
    payload = asked.payload
    held, place = signed_note(asked, payload.id, deps.whole_files)
    data = stands = held[slice(*place.span)].strip(b"\r\n")
    result: dict[str, Any] = {"file": MEMORY}
    if payload.content is not None:
        texts = deps.texts(asked)
        section, content = texts.note(place.section, payload.content)
        data = _rendered(texts, content, section, now).data
        result = with_neutralised(result, texts.changed)
    if payload.pinned is not None:
        data = with_pin(data.decode(), pinned=payload.pinned).encode()
    ((id_, after),) = notes_of(asked.group, data).items()
    if after.author == NOBODY or is_blank(after.text.removeprefix("-")) or is_blank(after.section):
        raise Refusal("invalid", f"nothing is left of {payload.id} without {PINNED}: edit its text", field="payload")
    result |= {"id": id_, "section": after.section}
    return Outcome(result, () if data == stands else (edited(asked.group, memory_of(asked), held, place.span, data),))


def signed_note(asked: Asked, id_: str, files: WholeFiles) -> tuple[bytes, NotePlace]:
    """Return the bytes of MEMORY.md and a signed note in it. Raises Refusal."""
    held = files.view(memory_of(asked)) or b""
    note = notes_of(asked.group, held).get(id_)
    if note is None:
        raise Refusal(
            "conflict",
            f"{MEMORY} has no note {id_} any more: nothing was changed; read it again, then decide",
            field="payload.id",
        )
    if note.author == NOBODY:
        raise Refusal("invalid", f"nobody signed {id_}: edit {MEMORY}", field="payload.id")
    return held, note


def memory_of(asked: Asked) -> str:
    """Return the path of the group's MEMORY.md, relative to the home folder."""
    return f"groups/{asked.group}/{MEMORY}"


def read_group_files(deps: Dependencies, asked: Asked, now: datetime) -> Mapping[str, Any]:
    """Return the group's files; one bad file is named and leaves the others readable."""
    result: dict[str, Any] = {}
    problems: list[dict[str, str]] = []
    for member, name in (("persona", PERSONA), ("memory", MEMORY), ("summary", SUMMARY)):
        try:
            text = deps.files.read(f"groups/{asked.group}/{name}")
            result[member] = None if text is None else text.text
            if text is not None and text.unread is not None:
                why = (
                    f"has {text.size} bytes, more than are served: the newest notes of each author are here, "
                    f"{sum(text.unread.values())} older ones are not; search_memory finds them all"
                )
                problems.append({"file": name, "message": why})
            if text is not None and text.fault:
                problems.append({"file": name, "message": text.fault})
        except FileProblem as problem:
            result[member] = None
            problems.append({"file": name, "message": problem.message})
            log.warning("group_file.refused", file=problem.file, why=problem.message)
    result["problems"] = problems
    return result
