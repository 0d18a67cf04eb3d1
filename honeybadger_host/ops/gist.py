"""A change of the journal in a few words, for people. Pure."""

from __future__ import annotations

import contextlib
from collections import Counter

import orjson

from honeybadger_agent.wording import shortened
from honeybadger_host.journal.edits import edit_of, edited_lines, is_edit, unread_of
from honeybadger_host.journal.schema import Row


def gist_of(event: Row, most: int = 80) -> str:
    """Return a change on one line of at most `most` characters."""
    if is_edit(event):
        return _on_one_line(_gist_of_edit(event), most)
    kind, text = event.kind, event.data.decode("utf-8", "replace")
    if kind in ("note", "note_archived"):
        text = text.partition("\n- ")[2].partition("\n> Archived")[0]
    else:
        with contextlib.suppress(orjson.JSONDecodeError, KeyError, TypeError):
            value = orjson.loads(event.data)
            match kind:
                case "turn" | "message":
                    text = f"[{value['sender']}]: {value['content']}"
                case "turns_withdrawn" | "turns_restored":
                    ranges = value.get("withdrawn") or value["restored"]
                    text = "turns " + ", ".join(
                        f"{first}-{last}" if last > first else str(first) for first, last in ranges
                    )
                case "task" | "task_removed":
                    text = f"{value['name']}: {value['description']}"
                case "feedback":
                    text = " ".join((value["kind"], value.get("content", "")))
                case "note_removed" | "note_restored":
                    noted = [line for _, gone, added in value["hunks"] for line in gone or added]
                    text = "; ".join(line[2:].rstrip() for line in noted if line.startswith("- "))
                case "edit_undone":
                    text = " ".join(line for _, _, added in value["hunks"] for line in added)
                    text = text or "taken out: " + " ".join(line for _, gone, _ in value["hunks"] for line in gone)
                case "note_edited":
                    text = "".join(line for _, _, added in value["hunks"] for line in added).partition("\n- ")[2]
                case "watermark" | "watermark_removed":
                    by = value["proposal"]
                    up_to = value.get("at") if by.startswith(("preferences-", "dream-")) else f"turn {value['turn']}"
                    text = f"read up to {up_to} by {by or 'nobody'}"
                case "task_record":
                    text = ": ".join(filter(None, (f"{value['task']} {value['event']}", value.get("why"))))
                case "proposal" | "proposal_removed":
                    states = Counter(each["state"] for each in value["operations"])
                    told = next((each.get("result") or each.get("why") for each in value["operations"]), None)
                    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
                    text = ": ".join(filter(None, (counts, told)))
                case "session" | "session_removed":
                    text = f"up to turn {(value.get('honeybadger') or value)['turns']}"
                case "working" | "working_removed":
                    text = f"{value['key']}: {value['data']}"
                case _:
                    text = str(value["content"])
    return _on_one_line(text, most)


def _gist_of_edit(event: Row) -> str:
    edit = edit_of(event)
    lines = edited_lines(edit)
    if edit.unread:
        return f"honeybadger-host undo {event.seq} brings back {unread_of(event)} ({lines})"
    hunks = edit.hunks or ()
    told = [line for hunk in hunks for line in hunk.added] or [line for hunk in hunks for line in hunk.removed]
    words = b"".join(told).decode("utf-8", "replace").strip().removeprefix("- ")
    return f"{lines}: {words}" if words else lines


def _on_one_line(text: str, most: int) -> str:
    words = " ".join(text.split())
    line = "".join(c if c.isprintable() else "\ufffd" for c in words)  # the others could control a terminal
    return shortened(line, most)
