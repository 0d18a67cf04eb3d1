"""Commands about the notes of a group: `notes list|show|edit|rm`."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from honeybadger_host.cli.asking import asked_of
from honeybadger_host.cli.options import AsJson, Home, home_of, tell
from honeybadger_host.errors import HostError, NotFound

if TYPE_CHECKING:
    from honeybadger_host.curation.notes import NotePlace

app = typer.Typer(help="List, show, edit or archive the notes of a group.", no_args_is_help=True)
NoteId = Annotated[str, typer.Argument(metavar="NOTE", help="Its id, as `notes list` shows it, or the id's beginning.")]


@app.command("list")
def notes_list(
    call: typer.Context,
    group: str,
    home: Home = None,
    by: Annotated[str | None, typer.Option(help="Only what this sender wrote.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, the newest.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List a group's notes, newest first."""
    notes = _notes_of(call, home_of(home), group)
    newest = [(id_, note) for id_, note in reversed(list(notes.items())) if by is None or note.author == by]
    rows = [_row(id_, note) for id_, note in newest[:limit]]
    tell(rows, _lines(rows, len(newest) - len(rows)), as_json=as_json)


@app.command("show")
def notes_show(call: typer.Context, group: str, note: NoteId, home: Home = None, as_json: AsJson = False) -> None:
    """Print one note whole."""
    id_, found = _one(_notes_of(call, home_of(home), group), group, note)
    row = _row(id_, found)
    tell(row, [f"[{id_}] {found.section} ({found.author or 'unsigned'})", found.text], as_json=as_json)


@app.command("edit")
def notes_edit(
    call: typer.Context,
    group: str,
    note: NoteId,
    text: Annotated[str | None, typer.Option(help="The new text; without it your editor opens.")] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Edit a note. It is then signed by the operator; `undo` reverts that."""
    folder = home_of(home)
    id_, found = _one(_notes_of(call, folder, group), group, note)
    wanted = _edited(found.text) if text is None else text
    if wanted.strip() == found.text.strip():
        print("the text is the same: nothing was changed")
        return
    result = asked_of(call, folder, group, "edit_note", {"id": id_, "content": wanted.strip("\n")})
    tell(result, [f"edited: {result['id']} in groups/{group}/{result['file']}"], as_json=as_json)


@app.command("rm")
def notes_rm(call: typer.Context, group: str, note: NoteId, home: Home = None, as_json: AsJson = False) -> None:
    """Move a note to the archive: it is no longer recalled. `undo` brings it back; `forget` deletes it."""
    folder = home_of(home)
    id_, _ = _one(_notes_of(call, folder, group), group, note)
    result = asked_of(call, folder, group, "archive_memory", {"id": id_})
    tell(result, [f"archived: {id_} is in groups/{group}/{result['file']}"], as_json=as_json)


def _notes_of(call: typer.Context, folder: Path, group: str) -> Mapping[str, NotePlace]:
    """Return the notes of a group by id, oldest first. Raises HostError."""
    from honeybadger_host.curation.notes import notes_of
    from honeybadger_host.files.home import MEMORY

    files = asked_of(call, folder, group, "read_group_files", {})
    for problem in files["problems"]:
        if problem["file"] == MEMORY and files["memory"] is None:
            raise HostError(f"groups/{group}/{MEMORY} {problem['message']}")
    return notes_of(group, (files["memory"] or "").encode())


def _one(notes: Mapping[str, NotePlace], group: str, named: str) -> tuple[str, NotePlace]:
    """Return the note with an id or the beginning of one. Raises NotFound, BadParameter."""
    whole = named if "#" in named else f"MEMORY.md#{named}"
    found = [id_ for id_ in notes if id_.startswith(whole)]
    if not found:
        raise NotFound(f"{group} has no note {named}: `honeybadger-host notes list {group}` shows them")
    if len(found) > 1 and whole not in notes:
        raise typer.BadParameter(f"{named} is the beginning of {len(found)} ids: {', '.join(found[:3])}")
    id_ = whole if whole in notes else found[0]
    return id_, notes[id_]


def _row(id_: str, note: NotePlace) -> dict[str, Any]:
    return {"id": id_, "section": note.section, "author": note.author or None, "text": note.text}


def _lines(rows: list[dict[str, Any]], left_out: int) -> Iterator[str]:
    for row in rows:
        first, _, rest = row["text"].partition("\n")
        yield f"[{row['id'].partition('#')[2]}] {row['author'] or 'unsigned'}, {row['section']}: {first}" + (
            " …" if rest else ""
        )
    if left_out:
        yield f"and {left_out} older: -n shows more"
    if not rows:
        yield "there are no notes"


def _edited(text: str) -> str:
    """Return a text as edited in the user's editor. Raises HostError if it cannot be started, or it failed."""
    from honeybadger_host.configuration import editor_of_user

    editor = editor_of_user()
    with tempfile.NamedTemporaryFile("w+", suffix=".md", prefix="note-", encoding="utf-8") as file:
        file.write(f"{text}\n")
        file.flush()
        try:
            ended = subprocess.run([*shlex.split(editor), file.name], check=False).returncode  # noqa: S603 - the user's own editor
        except OSError as error:
            raise HostError(f"cannot start {editor}: {error.strerror}; set EDITOR, or give --text") from None
        if ended:
            raise HostError(f"{editor} ended with {ended}: nothing was changed")
        return Path(file.name).read_text(encoding="utf-8")  # editors replace the file
