"""Makes the context of an earlier moment, for `get_context` with `as_of`.

It is made from the journal with the settings of that moment, and compared with the hash of the served context.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import PART_NAMES, Refusal
from honeybadger_host.context.maker import ContextMaker, ContextMemory, ContextSettings, Question, result_of
from honeybadger_host.context.recall import Recalled
from honeybadger_host.context.recollections import Recollection, longest, shortened
from honeybadger_host.domain import NOBODY, Identity, Served, Turn
from honeybadger_host.errors import JournalError, NotFound, WorldFailed
from honeybadger_host.memory.entry import marks_of, parse_entry
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.moments import Moment, moment_of
from honeybadger_host.memory.past import PastDocuments, PastFiles, PastJournal, PastMarks, PastTurns, past_inventory
from honeybadger_host.search.pieces import Piece, pieces_in, turns_of
from honeybadger_host.search.shown import edited_notes
from honeybadger_host.search.sources import Source, Unsearchable, files_called, source_of
from honeybadger_host.storage.edits import digest_of
from honeybadger_host.storage.journal_reader import read_changed_files
from honeybadger_host.text.time_stamps import parse_time, time_stamp

# Settings that older versions had, with the values that are fixed now.
_ONCE_SETTINGS: Final[Mapping[str, object]] = {"counter": "estimate", "max_file_bytes": 1 << 20}


class PastRecall:
    """Recalls the same as the served context; not from the index, which knows only the present.

    Args:
        served: the context that was served; None: none is known, and nothing is recalled.
        files: the files of that moment; they name the authors of notes.
        budget_tokens: `recall.budget_tokens` of that moment.
    """

    def __init__(self, journal: PastJournal, served: Served | None, files: PastFiles, budget_tokens: int) -> None:
        self._journal = journal
        self._served = served
        self._files = files
        self._most_tokens = longest(budget_tokens)
        self.lost: list[str] = []  # names of recalled texts that the journal no longer has

    def recall(self, group: str, session: str, message: str | None, turns: Sequence[Turn], now: datetime) -> Recalled:
        """Return the recollections of the served context, with their texts of that moment."""
        if self._served is None:
            return Recalled(why_none="no context was served just then: what it would have recalled is not known")
        rows = self._served.recalled
        wanted: dict[str, dict[str, int]] = {}
        for id_, _, _, checksum in rows:
            place, _, key = id_.rpartition("#")
            wanted.setdefault(place, {})[key] = checksum
        found: dict[str, Recollection] = {}
        for place, keys in wanted.items():
            found |= self._said(group, place, keys) if place else self._entries(group, keys)
        shown_as = {f"{session}#{turn.number}": turn.line for turn in turns}
        recollections = []
        for id_, state, turn_number, _ in rows:
            if (one := found.get(id_)) is None:
                self.lost.append(id_ if "#" in id_ else f"entry {id_}")
                continue
            as_state: Any = state
            recollections.append(replace(one, state=as_state, turn=turn_number, shown_as=shown_as.get(id_)))
        return Recalled(recollections, None if recollections else "nothing was recalled")

    def _entries(self, group: str, wanted: Mapping[str, int]) -> dict[str, Recollection]:
        found: dict[str, Recollection] = {}
        for entry_id, checksum in wanted.items():
            files = self._journal.files_of_entry(group, entry_id)
            for name, data in ((file, data) for file in files for data in self._journal.found_in(file)):
                with suppress(ValueError):
                    entry = parse_entry(data or b"", name)
                    one = Recollection(
                        entry.id, "entry", entry.content, "new", 0, category=entry.category, marks=marks_of(entry)
                    )
                    if one.checksum == checksum:
                        found[entry_id] = one
                        break
        return found

    def _said(self, group: str, place: str, wanted: Mapping[str, int]) -> dict[str, Recollection]:
        """Return turns of a session, or notes or paragraphs of a file: id -> recollection."""
        found: dict[str, Recollection] = {}
        for name in (group, GLOBAL_GROUP):
            for source in map(source_of, files_called(name, place)):
                if source is not None and source.kind != "session":
                    for pieces in self._pieces(source):
                        found |= self._matching(source, place, pieces, wanted)
                        if len(found) == len(wanted):
                            return found
        return found

    def _pieces(self, source: Source) -> Iterator[list[Piece]]:
        if source.kind == "turn":
            said = turns_of(self._journal.turn_lines(source.group, source.session))[0]
            yield [piece for piece in said if isinstance(piece, Piece)]
            return
        for data in self._journal.found_in(source.file):
            with suppress(Unsearchable):
                yield pieces_in(source, data or b"")

    def _matching(
        self, source: Source, place: str, pieces: Sequence[Piece], wanted: Mapping[str, int]
    ) -> dict[str, Recollection]:
        """Return the pieces with the checksum that was shown; the author may be a person who edited the note."""
        edited = edited_notes(self._files, source.file) if source.kind == "note" else {}
        found: dict[str, Recollection] = {}
        for piece in pieces:
            if piece.key not in wanted:
                continue
            by: list[tuple[str, float | None]] = [(piece.author, piece.at)]
            if (who := edited.get((piece.author, piece.text))) is not None:
                by.insert(0, (who.author, parse_time(f"{who.at}Z").timestamp()))
            for author, at in by:
                id_ = f"{place}#{piece.key}"
                text = piece.text.removeprefix("- ")
                one = shortened(Recollection(id_, source.kind, text, "new", 0, author=author, at=at), self._most_tokens)
                if one.checksum == wanted[piece.key]:
                    found[id_] = one
        return found


@dataclass(frozen=True, slots=True)
class PastContexts:
    """Makes contexts of earlier moments. Reads the journal and the injection ledger; writes nothing.

    Args:
        settings: the present ones.
    """

    home: Path
    journal: Path
    ledger: InjectionLedger
    settings: ContextSettings

    def answer(
        self, question: Question, as_of: str, sender: str | None, identity: Identity, now: datetime
    ) -> Mapping[str, Any]:
        """Return a `ContextResult`. Raises Refusal, JournalError, WorldFailed.

        Args:
            sender: the agent whose context is wanted; None: any agent's.
            identity: the sender's present identity, used when no context was served at that moment.
        """
        try:
            moment = moment_of(as_of, self.journal, self.ledger, question.group, now)
            return self._as_it_was(question, moment, sender, identity)
        except NotFound as error:
            raise Refusal("not_found", f"payload.as_of: {error}", field="payload.as_of") from None
        except JournalError as error:
            raise WorldFailed(str(error)) from error
        except ValueError as error:
            raise Refusal("invalid", f"payload.as_of: {error}", field="payload.as_of") from None

    def _as_it_was(
        self, question: Question, moment: Moment, sender: str | None, identity: Identity
    ) -> Mapping[str, Any]:
        served, settings = moment.served, self.settings
        if served is None and (newest := self._newest(question, moment, sender)) is not None:
            settings = _settings_of(newest) or settings
            if not read_changed_files(self.journal, question.group, newest.seq, moment.seq):
                served = newest
        if served is not None:
            moment = Moment(served.seq, served.at, served=served)
            identity, settings = _identity_of(served), _settings_of(served) or settings
            question = Question(
                served.group,
                served.session,
                None,
                served.message_tokens,
                served.budget_tokens,
                served.most_turns,
                served.skips_newest,
                None if served.parts is None else [name for name in PART_NAMES if name in served.parts],
            )
        journal = PastJournal(self.home, self.journal, moment.seq)
        files = PastFiles(journal, {} if served is None else served.files)
        recall = PastRecall(journal, served, files, settings.recall_budget_tokens)
        memory = ContextMemory(
            files,
            PastTurns(journal, settings.window_turns),
            PastDocuments(journal),
            partial(past_inventory, journal if settings.has_working_memory else None),
            recall,
            PastMarks(journal),
        )
        at = datetime.fromtimestamp(moment.at / 1000, UTC)
        made = ContextMaker(memory, settings).make(question, identity, at)
        hash_ = digest_of(made.context.system.encode()).hex()
        stable_hash = digest_of(made.context.stable.encode()).hex()
        is_identical = None if served is None else hash_ == served.hash
        why: list[str] = []
        if not is_identical:
            lost = "its text of then is not in the journal; nobody saw it, or it was forgotten"
            why = [*(f"{name}: {lost}" for name in (*files.lost, *recall.lost)), *_why(served, self.settings)]
        result = result_of(made, hash_, stable_hash, min(moment.seq, (1 << 53) - 1))
        result["as_of"] = {
            "seq": result["seq"],
            "at": time_stamp(at, "milliseconds"),
            "served": None if served is None else served.hash,
            "is_identical": is_identical,
            "why": why,
        }
        return result

    def _newest(self, question: Question, moment: Moment, sender: str | None) -> Served | None:
        """Return the context that was served last up to a moment."""
        try:
            return self.ledger.served_until(question.group, question.session, moment.seq, moment.until, sender)
        except (OSError, sqlite3.Error):
            return None


def _settings_of(served: Served) -> ContextSettings | None:
    """Return the settings of a served context; None when another version of the host had other settings."""
    try:
        settings = orjson.loads(served.settings)
        is_made_as_today = all(settings.pop(name, value) == value for name, value in _ONCE_SETTINGS.items())
        return ContextSettings(**settings) if is_made_as_today else None
    except (orjson.JSONDecodeError, TypeError, AttributeError):
        return None


def _identity_of(served: Served) -> Identity:
    try:
        value = orjson.loads(served.identity)
        return Identity(**{**value, "files": tuple(value["files"])})
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return NOBODY


def _why(served: Served | None, today: ContextSettings) -> list[str]:
    """Return why a context differs from the served one, apart from lost texts."""
    if served is None:
        return ["no context of this session was served at that moment: what it would have recalled is not known"]
    then, why = _settings_of(served), []
    if then is None or then.host != today.host:
        why.append(f"it was made by version {then.host if then else '(unknown)'} of the host, this is {today.host}")
    if served.is_torn:
        why.append("its group was written to while it was made")
    return why or ["turns, a session document or working memory were changed without the host, or forgotten"]
