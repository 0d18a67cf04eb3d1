"""The commands that list the groups of a home, their notes (`notes list|show|edit|rm`) and their tasks."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from honeybadger_agent.cli.explaining import ACTIONS, shown_task, task_lines
from honeybadger_host.cli.asking import asked_of, inbox_group
from honeybadger_host.cli.options import AsJson, Home, HomeWithFiles, action_in, groups_with, journal_of, tell
from honeybadger_host.configuration import editor_of_user
from honeybadger_host.errors import HostError, NotFound
from honeybadger_host.files.home import MEMORY

if TYPE_CHECKING:
    from honeybadger_host.search.notes import NotePlace

app = typer.Typer(rich_markup_mode=None)


@app.command()
def groups(
    home: HomeWithFiles,
    named: Annotated[str | None, typer.Argument(help="Only those with this in their name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the groups of the home. Works with and without a running host."""
    result = asked_of(home, inbox_group(home), "list_groups", {"named": named, "limit": limit})
    tell(result, _table(result), as_json=as_json)


def _table(result: Mapping[str, Any]) -> Iterator[str]:
    rows = result["groups"]
    width = max((len(row["group"]) for row in rows), default=0)
    width = max(width, len("group"))
    yield f"{'group':{width}}  notes  entries  sessions  waiting  last said             who"
    for row in rows:
        notes = "?" if row["notes"] is None else row["notes"]
        more = row["senders_total"] - len(row["senders"])
        who = ", ".join(row["senders"]) + (f" and {more} more" if more else "")
        counts = f"{notes:>5}  {row['entries']:>7}  {row['sessions']:>8}  {row['waiting']:>7}"
        yield f"{row['group']:{width}}  {counts}  {row['last_said'] or 'never':20}  {who}".rstrip()
    if result["total"] > len(rows):
        yield f"and {result['total'] - len(rows)} more: -n shows up to 200, or give a part of the name"


notes_app = typer.Typer(help="List, show, edit or archive the notes of a group.", no_args_is_help=True)
app.add_typer(notes_app, name="notes")
NoteId = Annotated[str, typer.Argument(metavar="NOTE", help="Its id, as `notes list` shows it, or the id's beginning.")]


@notes_app.command("list")
def notes_list(
    home: Home,
    group: str,
    by: Annotated[str | None, typer.Option(help="Only what this sender wrote.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, the newest.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List a group's notes, newest first."""
    notes = _notes_of(home, group)
    newest = [(id_, note) for id_, note in reversed(list(notes.items())) if by is None or note.author == by]
    rows = [_note_row(id_, note) for id_, note in newest[:limit]]
    tell(rows, _note_lines(rows, len(newest) - len(rows)), as_json=as_json)


@notes_app.command("show")
def notes_show(home: Home, group: str, note: NoteId, as_json: AsJson = False) -> None:
    """Print one note whole."""
    id_, found = _one(_notes_of(home, group), group, note)
    row = _note_row(id_, found)
    tell(row, [f"[{id_}] {found.section} ({found.author or 'unsigned'})", found.text], as_json=as_json)


@notes_app.command("edit")
def notes_edit(
    home: Home,
    group: str,
    note: NoteId,
    text: Annotated[str | None, typer.Option(help="The new text; without it your editor opens.")] = None,
    as_json: AsJson = False,
) -> None:
    """Edit a note. It is then signed by the operator; `undo` reverts that."""
    id_, found = _one(_notes_of(home, group), group, note)
    wanted = _edited(found.text) if text is None else text
    if wanted.strip() == found.text.strip():
        print("the text is the same: nothing was changed")
        return
    result = asked_of(home, group, "edit_note", {"id": id_, "content": wanted.strip("\n")})
    tell(result, [f"edited: {result['id']} in groups/{group}/{result['file']}"], as_json=as_json)


@notes_app.command("rm")
def notes_rm(home: Home, group: str, note: NoteId, as_json: AsJson = False) -> None:
    """Move a note to the archive: it is no longer recalled. `undo` brings it back; `forget` deletes it."""
    id_, _ = _one(_notes_of(home, group), group, note)
    result = asked_of(home, group, "archive_memory", {"id": id_})
    tell(result, [f"archived: {id_} is in groups/{group}/{result['file']}"], as_json=as_json)


def _notes_of(folder: Path, group: str) -> Mapping[str, NotePlace]:
    """Return the notes of a group by id, oldest first; a person who changed a note is its author. Raises HostError."""
    from honeybadger_host.memory.edited_notes import recorded
    from honeybadger_host.search.notes import notes_of

    files = asked_of(folder, group, "read_group_files", {})
    for problem in files["problems"]:
        if problem["file"] == MEMORY and files["memory"] is None:
            raise HostError(f"groups/{group}/{MEMORY} {problem['message']}")
    text = files["memory"] or ""
    data, edited = text.encode(), recorded(journal_of(folder), f"groups/{group}/{MEMORY}", text)
    notes: dict[str, NotePlace] = {}
    for id_, note in notes_of(group, data).items():
        by = edited.get(data[slice(*note.span)].decode().strip())
        notes[id_] = note if by is None else replace(note, author=by.author)
    return notes


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


def _note_row(id_: str, note: NotePlace) -> dict[str, Any]:
    return {"id": id_, "section": note.section, "author": note.author or None, "text": note.text}


def _note_lines(rows: list[dict[str, Any]], left_out: int) -> Iterator[str]:
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


@app.command()
def tasks(
    home: Home,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[list] [GROUP] | ACTION GROUP TASK",
            help=f"All tasks, those of a group, or one: {', '.join(action for action in ACTIONS if action != 'list')}.",
        ),
    ] = None,
    why: Annotated[str | None, typer.Option(help="With pause: the reason to show.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show, run, pause, resume or cancel tasks."""
    action, rest = action_in(words, ACTIONS, "list")
    if action == "list":
        found = {
            group: asked_of(home, group, "list_tasks", {})["tasks"] for group in rest or groups_with(home, "tasks")
        }
        tell(found, _tasks_of(found), as_json=as_json)
        return
    if len(rest) != 2:
        raise typer.BadParameter(f"{action} needs a group and a task, as: tasks {action} main morning-news")
    group, task = rest
    payload = {"task": task, **({"why": why} if action == "pause" else {})}
    result: Any = asked_of(home, group, ACTIONS[action], payload)
    row = result["tasks"][0] if action == "show" else result
    tell(row, shown_task(row) if action == "show" else task_lines([row]), as_json=as_json)


def _tasks_of(found: Mapping[str, Any]) -> Iterator[str]:
    for group, rows in found.items():
        if rows and len(found) > 1:
            yield f"{group}:"
        yield from task_lines(rows)
    if not any(found.values()):
        yield "there are no tasks"
