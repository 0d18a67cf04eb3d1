"""A change of the journal in a few words, for people: its author's action, and the beginning of its text. Pure."""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from honeybadger_agent.wording import shortened
from honeybadger_host.journal.edits import REVISED_KINDS, Edit, edit_of, edited_lines, is_edit, unread_of
from honeybadger_host.journal.schema import Row


def gist_of(event: Row, most: int = 80) -> str:
    """Return a change on one line of at most `most` characters."""
    text = event.data.decode("utf-8", "replace")
    if is_edit(event):
        text = _edit(event)
    elif event.kind in REVISED_KINDS:
        text = _lines(edit_of(event))
    elif event.kind in ("note", "note_archived"):  # their text is Markdown
        text = text.partition("\n- ")[2].partition("\n> Archived")[0]
    else:
        with contextlib.suppress(orjson.JSONDecodeError, LookupError, TypeError):
            gist = WORDS[event.kind].gist
            value = orjson.loads(event.data)
            text = gist.format_map(value) if isinstance(gist, str) else gist(value)
    words = " ".join(text.split())
    line = "".join(c if c.isprintable() else "\ufffd" for c in words)  # other characters could control a terminal
    return shortened(line, most)


def _edit(event: Row) -> str:
    edit = edit_of(event)
    lines = edited_lines(edit)
    if edit.unread:
        return f"honeybadger-host undo {event.seq} brings back {unread_of(event)} ({lines})"
    words = _lines(edit)
    return f"{lines}: {words}" if words else lines


def _lines(edit: Edit) -> str:
    """Return what a change of lines added, else what it removed; of a note its words."""
    hunks = edit.hunks or ()
    told = [line for hunk in hunks for line in hunk.added] or [line for hunk in hunks for line in hunk.removed]
    text = b"".join(told).decode("utf-8", "replace").strip()
    return text.partition("\n- ")[2] or text.removeprefix("- ")


# The functions below take the JSON of a change and return its text. They raise KeyError, TypeError for another form.


def _turns(value: Any) -> str:
    ranges = value.get("withdrawn") or value["restored"]
    return "turns " + ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def _task_record(value: Any) -> str:
    return ": ".join(filter(None, (f"{value['task']} {value['event']}", value.get("why"))))


def _watermark(value: Any) -> str:
    by = value["proposal"]
    up_to = value.get("at") if by.startswith(("preferences-", "dream-")) else f"turn {value['turn']}"
    return f"read up to {up_to} by {by or 'nobody'}"


def _proposal(value: Any) -> str:
    states = Counter(each["state"] for each in value["operations"])
    told = next((each.get("result") or each.get("why") for each in value["operations"]), None)
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return ": ".join(filter(None, (counts, told)))


class Words(NamedTuple):
    """The words for a kind of change.

    Args:
        did: its author's action.
        gist: a text with members of the change's JSON, or a function that takes the JSON and returns a text.
    """

    did: str
    gist: str | Callable[[Any], str] = "{content}"


_SAID = "[{sender}]: {content}"
_TASK = "{name}: {description}"
_WORKING = "{key}: {data}"
_SESSION = "up to turn {honeybadger[turns]}"
WORDS: Mapping[str, Words] = {
    "note": Words("noted"),
    "note_archived": Words("archived a note"),
    "note_removed": Words("took notes out"),
    "note_restored": Words("put notes back"),
    "note_edited": Words("edited a note"),
    "edit_undone": Words("took an edit back"),
    "turn": Words("said", _SAID),
    "turns_withdrawn": Words("withdrew turns", _turns),
    "turns_restored": Words("restored turns", _turns),
    "message": Words("sent a message", _SAID),
    "feedback": Words("gave feedback", "{kind} {content}"),
    "entry": Words("saved an entry"),
    "entry_removed": Words("removed an entry"),
    "archived": Words("archived an entry"),
    "archived_removed": Words("took an entry out of the archive"),
    "task": Words("scheduled a task", _TASK),
    "task_removed": Words("removed a task", _TASK),
    "task_record": Words("updated a task", _task_record),
    "text": Words("changed a file"),
    "text_removed": Words("removed a file"),
    "edit": Words("edited a file"),
    "edit_new": Words("wrote a file"),
    "edit_removed": Words("removed a file"),
    "proposal": Words("proposed or decided", _proposal),
    "proposal_removed": Words("removed a proposal", _proposal),
    "history": Words("summarised the conversation"),
    "summary": Words("wrote the summary"),
    "summary_removed": Words("removed the summary"),
    "session": Words("updated the session", _SESSION),
    "session_removed": Words("removed the session", _SESSION),
    "watermark": Words("read the conversation", _watermark),
    "watermark_removed": Words("forgot how far the conversation was read", _watermark),
    "working": Words("kept in working memory", _WORKING),
    "working_removed": Words("kept in working memory until it expired", _WORKING),
}
