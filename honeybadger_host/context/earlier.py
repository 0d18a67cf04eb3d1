"""The context of an earlier moment (`get_context` with `as_of`): a served context, or one made of the files then."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import MAX_NUMBER, PART_NAMES, Refusal
from honeybadger_host.context.maker import Question, result_of
from honeybadger_host.context.parts import Loaded, in_order, parts_of_files
from honeybadger_host.context.recall import Recalled
from honeybadger_host.context.text import build_context
from honeybadger_host.documents.history import read_past, version_at
from honeybadger_host.errors import FileProblem, JournalError, NotFound, WorldFailed
from honeybadger_host.files.home import MEMORY, SUMMARY
from honeybadger_host.journal.edits import is_edit
from honeybadger_host.journal.reader import read_changed_files
from honeybadger_host.memory.edited_notes import edited_notes, with_typed
from honeybadger_host.memory.injection_ledger import LEDGER_FILE, InjectionLedger, ServedContext
from honeybadger_host.memory.markdown.group_files import text_of
from honeybadger_host.memory.markdown.notes import NOT_EDITED
from honeybadger_host.memory.moments import Moment, moment_of
from honeybadger_host.text.time_stamps import time_stamp


@dataclass(frozen=True, slots=True)
class EarlierContexts:
    """Looks up served contexts in the journal and the ledger; writes nothing."""

    journal: Path
    ledger: InjectionLedger

    def answer(self, question: Question, as_of: str, sender: str | None, now: datetime) -> Mapping[str, Any]:
        """Return a `ContextResult`. Raises Refusal, WorldFailed.

        Args:
            sender: the agent whose context is wanted; None: any agent's. A hash names a context whosever it is.
        """
        try:
            moment = moment_of(as_of, self.journal, self.ledger, question.group, now)
            served = moment.served or self._served_at(question, moment, sender)
            result = None if served is None else self.ledger.result_of(served.hash)
            if served is None or result is None:
                return self._files(question, moment)
            return {**result, "seq": served.seq} | _moment_members(served.seq, served.at, served.hash)
        except NotFound as error:
            raise Refusal("not_found", f"payload.as_of: {error}", field="payload.as_of") from None
        except JournalError as error:
            raise WorldFailed(str(error)) from error
        except (OSError, sqlite3.Error) as error:
            raise WorldFailed(f"{LEDGER_FILE} cannot be read: {error}") from error
        except ValueError as error:
            raise Refusal("invalid", f"payload.as_of: {error}", field="payload.as_of") from None

    def _served_at(self, question: Question, moment: Moment, sender: str | None) -> ServedContext | None:
        """Return the context that was served last up to a moment, if nothing was changed in between."""
        served = self.ledger.served_until(question.group, question.session, moment.seq, moment.until, sender)
        if served is None:
            return None
        groups = (question.group, GLOBAL_GROUP)
        is_over = any(read_changed_files(self.journal, group, served.seq, moment.seq) for group in groups)
        return None if is_over else served

    def _files(self, question: Question, moment: Moment) -> Mapping[str, Any]:
        group, budget_tokens = question.group, question.budget_tokens
        read = partial(self._file, seq=moment.seq)
        made = parts_of_files(group, read, budget_tokens, read(f"groups/{group}/{SUMMARY}"))
        parts = in_order(made, question.parts or PART_NAMES)
        head = f"Group: {group}\n" if question.parts is None else ""
        context = build_context(head, parts, len(parts), None, budget_tokens=budget_tokens)
        seq = min(moment.seq, MAX_NUMBER)
        return result_of(context, Recalled(), seq) | _moment_members(seq, moment.at, None)

    def _file(self, file: str, seq: int) -> Loaded:
        """Return a file as it was right after a change."""
        past = read_past(self.journal, file)
        if not past.rows and past.seen is None:
            return None
        version = version_at(past, seq)
        if not version.is_known:
            return FileProblem(file, "is not known as it was then")
        if not version.is_there:
            return None
        found = text_of(file, version.text)
        if isinstance(found, str):
            return FileProblem(file, found)
        typed = with_typed(NOT_EDITED, [row for row in past.rows if is_edit(row) and row.seq <= seq])
        return replace(found, edited=edited_notes(found.text, typed)) if file.endswith(f"/{MEMORY}") else found


def _moment_members(seq: int, at: int, served: str | None) -> dict[str, Any]:
    """Return the moment as an answer describes it."""
    return {
        "messages": [],
        "as_of": {
            "seq": seq,
            "at": time_stamp(datetime.fromtimestamp(at / 1000, UTC), "milliseconds"),
            "served": served,
        },
    }
