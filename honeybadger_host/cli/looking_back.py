"""Commands that look back: authors of lines, earlier files and contexts, differences, rewind."""

import difflib
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from honeybadger_host.cli.memory import AsOf, Explain, print_context
from honeybadger_host.cli.shared import AsJson, Home, HomeWithFiles, asked_of, check_group, journal_of, moment, tell
from honeybadger_host.documents.history import UNKNOWN_WHY, Blamed, Past, blame_of, read_past, version_at
from honeybadger_host.errors import NotFound
from honeybadger_host.files.home import JOURNAL_FILE, MEMORY
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.edits import edit_of, is_edit
from honeybadger_host.journal.reader import (
    LogFilter,
    SaidIn,
    read_changed,
    read_changed_files,
    read_log,
    read_turn,
    read_turns_behind,
)
from honeybadger_host.journal.schema import LAST_SEQ
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.moments import moment_of
from honeybadger_host.memory.peoples_files import document_group, group_of
from honeybadger_host.memory.turn_log import turns_file

app = typer.Typer(rich_markup_mode=None)

InGroup = Annotated[str, typer.Argument(help="A group, or a group and a file: main/CLAUDE.md.")]
OfGroup = Annotated[
    str | None, typer.Argument(help="Below the group's folder; or the id of an entry.", show_default=MEMORY)
]


def named_by(group: str, file: str | None) -> tuple[str, str]:
    """Return a group and one of its files, given as two words or as one; without a file it is MEMORY.md."""
    if file is None:
        group, _, file = group.removeprefix("groups/").partition("/")
    return group, file or MEMORY


@app.command()
def blame(
    home: HomeWithFiles,
    group: InGroup,
    file: OfGroup = None,
    as_json: AsJson = False,
) -> None:
    """Print who wrote each line of a file, and when. For an entry: each member."""
    path = file_of(home, *named_by(group, file))
    journal, held = journal_of(home), read_whole(home / path)
    if held is None:
        raise NotFound(f"{path} is not there: `honeybadger-host log {group} --file {path}` shows who removed it")
    blamed = blame_of(journal, path, held)
    rows = {found.origin.seq: found.origin for _, found in blamed if not isinstance(found.origin, str)}
    turns = read_turns_behind(journal, [*rows.values()]) if as_json else {}
    is_entry = path.endswith(".json")
    shown = [_blamed(name, found, turns, is_entry=is_entry) for name, found in blamed]
    reasons = sorted({one["why"] for one in shown if one["why"] is not None})
    missing = [f"({why.replace('_', ' ')}): {UNKNOWN_WHY[why]}" for why in reasons]
    tell(shown, map(_blamed_line, shown), as_json=as_json, missing=missing)


def _blamed(name: str, found: Blamed, turns: Mapping[int, SaidIn], *, is_entry: bool) -> dict[str, Any]:
    """Return a line of a file, or a member of an entry, with its author."""
    place: dict[str, Any] = {"member": name} if is_entry else {"line": int(name)}
    where, origin = place | {"text": found.shown}, found.origin
    if isinstance(origin, str):
        return {**where, "author": None, "at": None, "seq": None, "request": None, "why": origin}
    said = turns.get(origin.seq)
    return {
        **where,
        "author": origin.sender,
        "at": moment(origin.at),
        "seq": origin.seq,
        "request": None if is_edit(origin) else origin.request,
        "why": None,
        "session": said and said.session,
        "turn": said and said.turn,
    }


def _blamed_line(one: Mapping[str, Any]) -> str:
    text = "".join(c if c.isprintable() else "\ufffd" for c in one["text"].replace("\t", "    "))
    member = f"{one['member']}: " if "member" in one else ""
    by = one["author"] or f"({one['why'].replace('_', ' ')})"
    return f"{one['seq'] or '-':>8}  {one['at'] or '':20}  {by:16}  {member}{text}".rstrip()


def file_of(home: Path, group: str, file: str) -> str:
    """Return the path of a group's file below the home; an entry may be named by its id.

    The file exists, or the journal has changes of it. Raises NotFound if neither is so.
    """
    check_group(home, group)
    named = next((path for path in (file, f"groups/{group}/{file}") if document_group(path) == group), None)
    if named is None:
        folder = home / "groups" / group / "memory"
        found = [str(path.relative_to(home)) for path in folder.rglob("*.json") if path.stem == file]
    else:
        found = [named] if (home / named).exists() else []
    if not found and (home / JOURNAL_FILE).exists():
        events = read_log(journal_of(home), LogFilter(group, file=named or f"{file}.json"), 9)
        found = [event.file for event in events if document_group(event.file) == group]
    if not found:
        raise NotFound(f"{group} has no file or entry {file!r}: `honeybadger-host log {group}` shows the names")
    return found[0]


@app.command()
def show(
    home: Home,
    group: InGroup,
    file: OfGroup = None,
    as_of: Annotated[str | None, AsOf] = None,
) -> None:
    """Print a file as it is, or as it was at a moment.

    If the journal cannot know it, the command says so.
    """
    group, file = named_by(group, file)
    path, journal = file_of(home, group, file), journal_of(home)
    past, seq = read_past(journal, path), LAST_SEQ if as_of is None else seq_of(home, group, as_of, "--as-of")
    version, when = version_at(past, seq), "now" if as_of is None else f"at {as_of}"
    if not version.is_known:
        raise NotFound(f"how {path} was {when} is not known: {unknown_because(past, seq)}")
    if not version.is_there:
        raise NotFound(f"{path} is not there" if as_of is None else f"{path} was not there {when}")
    sys.stdout.flush()
    sys.stdout.buffer.write(version.text)
    if not past.rows or past.rows[0].seq > seq:
        until = f"before change {past.rows[0].seq}" if past.rows else "when the host looked at it last"
        print(f"(so it stood {until}; since when is not known)", file=sys.stderr)


@app.command()
def why(
    home: Home,
    group: str,
    turn: Annotated[str, typer.Argument(help="Number of an answer in its session, or the id of the message.")],
    session: Annotated[str, typer.Option(help="The conversation.")] = "main",
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Print the context that an answer was given from. Works with and without a running host."""
    said = read_turn(journal_of(home), turns_file(group, session), turn)
    if said is None:
        raise NotFound(
            f"session {session} of {group} has no turn {turn}: `honeybadger-host log {group} --kind turn` lists them"
        )
    shown = said.get("context")
    if shown is None:
        raise NotFound(f"turn {said['turn']} of {group} keeps no context: only answers that this host made do")
    if not as_json:
        print(f"turn {said['turn']} by {said['sender']} was answered from context {shown['hash']}", file=sys.stderr)
    try:
        result = asked_of(home, group, "preview_context", {"as_of": shown["hash"]}, session=session)
    except NotFound:  # it is too old, or a text in it was forgotten
        wanted = {"as_of": str(shown["seq"]), "agent": said["sender"]}
        result = asked_of(home, group, "preview_context", wanted, session=session)
    print_context(result, explain=explain, as_json=as_json)


@app.command()
def rewind(
    home: Home,
    group: str,
    to: Annotated[str, typer.Option("--to", help="Number of a change, a date, a time, `yesterday`, a context's hash.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a group's files back to an earlier moment. It makes new changes: all or none."""
    result = asked_of(home, group, "rewind", {"to": to, "dry_run": dry_run or None})
    lines = [
        f"{one['file']}: {'would be ' if dry_run else ''}{one['did'].replace('_', ' ')}, "
        f"+{one['added']} -{one['removed']} lines"
        for one in result["files"]
    ]
    tell(result, lines or [f"{group} is as it was after change {result['to']}"], as_json=as_json)


@app.command()
def diff(
    home: Home,
    group: str,
    earlier: Annotated[
        str | None,
        typer.Argument(
            help="Number of a change, a date, a time, or `yesterday`; without it, before the last change.",
            metavar="[FROM]",
        ),
    ] = None,
    later: Annotated[str | None, typer.Argument(help="Likewise; without it the newest change.", metavar="[TO]")] = None,
    file: Annotated[str | None, typer.Option(help="Only this file, or the entry of this id.")] = None,
) -> None:
    """Print how a group's files differ between two moments.

    Without FROM: what their last change did.
    """
    check_group(home, group)
    journal = journal_of(home)
    only = None if file is None else file_of(home, group, file)
    first = last_change(journal, group, only) - 1 if earlier is None else seq_of(home, group, earlier, "FROM")
    last = seq_of(home, group, later, "TO") if later is not None else LAST_SEQ
    if first > last:
        raise typer.BadParameter(f"TO {later} is before FROM {earlier}: exchange them")
    changed = read_changed_files(journal, group, first, last)
    for path in [path for path in changed if group_of(path) == group and only in (None, path)]:
        past = read_past(journal, path)
        texts: list[list[str]] = []
        names: list[str] = []
        for seq, side in ((first, "a"), (last, "b")):
            version = version_at(past, seq)
            if not version.is_known:
                print(f"{path}: how it was at change {seq} is not known: {unknown_because(past, seq)}", file=sys.stderr)
                break
            texts.append(version.text.decode("utf-8", "replace").splitlines(keepends=True))
            names.append(f"{side}/{path}" if version.is_there else "/dev/null")
        else:
            for line in difflib.unified_diff(texts[0], texts[1], names[0], names[1]):
                sys.stdout.write(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")


def last_change(journal: Path, group: str, only: str | None) -> int:
    """Return the number of the newest change of a group's files, or of one of them. Raises NotFound."""
    for seq, file in read_changed(journal, group):
        if group_of(file) == group and only in (None, file):
            return seq
    raise NotFound(f"nothing was changed in {only or f'the files of {group}'} yet")


def seq_of(home: Path, group: str, moment_: str, name: str) -> int:
    """Return the number of the last change at a moment: a number, a time, or a context's hash."""
    ledger = InjectionLedger(home)
    try:
        return moment_of(moment_, journal_of(home), ledger, group, datetime.now(UTC)).seq
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=name) from None
    finally:
        ledger.close()


def unknown_because(past: Past, seq: int) -> str:
    before = [row for row in past.rows if row.seq <= seq]
    if not before:
        return "nothing of it is recorded" + (f" before change {past.rows[0].seq}" if past.rows else "")
    lost = [row for row in before if is_edit(row) and edit_of(row).hunks is None]
    return f"the text of change {lost[-1].seq} was not kept" if lost else "its beginning was not recorded"
