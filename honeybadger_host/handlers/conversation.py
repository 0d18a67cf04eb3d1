"""Conversation: `append_turn`, `append_turns`, `get_turns`, `get_history`, and the names of turns (AM1, HB6, HB9).

Nobody is shown under a name that is, or looks like, another's.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

import structlog

from honeybadger_agent.mailbox import OPERATOR, SYSTEM_SENDERS
from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.wire import (
    MAX_NUMBER,
    AppendTurn,
    AppendTurns,
    GetHistory,
    GetTurns,
    ImportedTurn,
    KeyedTurn,
    Refusal,
    Role,
)
from honeybadger_host.agents import Agent
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handler_kinds import MAX_REPLY_BYTES, Asked, ChangeHandler, Outcome, QueryHandler
from honeybadger_host.handlers.redaction import Screen, not_blank, with_neutralised
from honeybadger_host.journal.changes import TurnAdded
from honeybadger_host.memory.markdown.budget import format_history
from honeybadger_host.memory.session_document import Deletion
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log import data_in, dump_turn
from honeybadger_host.memory.turn_log_store import MAX_KEPT, TurnLogs
from honeybadger_host.text.neutralise import estimate_tokens, is_blank, one_line
from honeybadger_host.text.phrases import FORGOTTEN
from honeybadger_host.text.time_stamps import parse_time, time_stamp, to_milliseconds
from honeybadger_host.text.turn import Turn

log = structlog.get_logger()

_DEFAULT_TURNS: Final = 100  # turns of a reply to a request that gives no limit

OFF: Final = "no conversation is kept on this host (conversation.enabled): do without it"


def prepare_turn(turn_logs: TurnLogs, documents: Sessions) -> Callable[[Asked], None]:
    """Return a function that loads a session before turns are added to it."""

    def prepare(asked: Asked) -> None:
        turn_logs.load(asked.group, asked.session)
        try:
            documents.load(asked.group, asked.session)
        except WorldFailed as error:  # a turn is kept in the log and does not need the document
            log.warning("session.passed_over", group=asked.group, session=asked.session, error=str(error))

    return prepare


@dataclass(frozen=True, slots=True)
class Said:
    """The members that a turn has in each request, screened.

    Args:
        changed: counts of neutralised text, by kind.
    """

    speaker: str
    content: str
    tools_used: tuple[str, ...]
    changed: Mapping[str, int]


def said_in(screen: Screen, asked: Asked, payload: AppendTurn | KeyedTurn | ImportedTurn, member: str) -> Said:
    """Return the members of a turn as the log keeps them.

    Args:
        member: its path in the request, e.g. `payload`.
    Raises Refusal.
    """
    text, thoughts = payload.content, 0
    if payload.role == "assistant" and "<" in text:  # else nothing can be hidden, and looking takes 0.1 ms
        visible = Visible.of(text)
        text, thoughts = visible.text, visible.count
    not_blank(f"{member}.content", text)
    speaker = speaker_of(payload.sender, payload.role, f"{member}.sender")
    content, changed = screen.text(asked, f"{member}.content", text)
    return Said(
        speaker if payload.sender is None else screen.name(asked, f"{member}.sender", speaker),
        content,
        tuple(screen.name(asked, f"{member}.tools_used", name) for name in payload.tools_used or ()),
        {**changed, **({"thinking": thoughts} if thoughts else {})},
    )


def append_turn(turn_logs: TurnLogs, documents: Sessions, screen: Screen, speakers: Speakers) -> ChangeHandler[None]:
    """Return the handler of `append_turn`; a turn that brings the session's document over a limit compacts it."""
    load = prepare_turn(turn_logs, documents)

    def prepare(asked: Asked) -> None:
        payload: AppendTurn = asked.payload
        speakers.check(asked, {"payload.sender": (payload.sender, payload.role)})
        load(asked)

    def decide(asked: Asked, prepared: None, now: datetime) -> Outcome:
        payload: AppendTurn = asked.payload
        screen.path("session", asked.session)
        said = said_in(screen, asked, payload, "payload")
        at = to_milliseconds(now)
        if payload.at is not None:
            at = _said_at(payload.at, turn_logs.last_at(asked.group, asked.session), at)
        turn = Turn(
            number=turn_logs.next_number(asked.group, asked.session),
            at=at,
            role=payload.role,
            sender=said.speaker,
            by=asked.sender,
            content=said.content,
            token_count=estimate_tokens(said.content),
            tools_used=said.tools_used,
            input_tokens=payload.input_tokens,
            output_tokens=payload.output_tokens,
        )
        change = TurnAdded(asked.group, asked.session, turn, dump_turn(turn, asked.request_id))
        result = with_neutralised({"turn": turn.number, "token_count": turn.token_count}, said.changed)
        return Outcome(result, (change, *documents.after_turns([change], now)))

    return ChangeHandler(decide, prepare)


# The turns of the log with the keys of a request, by key; and the screened turns of the request, each with its data.
_Appending: TypeAlias = tuple[Mapping[str, Turn], Sequence[tuple[Said, str | None]]]


def append_turns(
    turn_logs: TurnLogs, documents: Sessions, screen: Screen, speakers: Speakers
) -> ChangeHandler[_Appending]:
    """Return the handler of `append_turns`: all turns with new keys in one commit, or none."""
    load = prepare_turn(turn_logs, documents)

    def prepare(asked: Asked) -> _Appending:
        payload: AppendTurns = asked.payload
        screen.path("session", asked.session)
        names = {f"payload.turns.{place}.sender": (one.sender, one.role) for place, one in enumerate(payload.turns)}
        speakers.check(asked, names)
        said = [_said_with_data(screen, asked, keyed, place) for place, keyed in enumerate(payload.turns)]
        load(asked)
        keys = {keyed.key for keyed in payload.turns}
        return turn_logs.keyed(asked.group, asked.session, keys), said

    def decide(asked: Asked, prepared: _Appending, now: datetime) -> Outcome:
        payload: AppendTurns = asked.payload
        in_log, screened = prepared
        known = dict(in_log)
        for turn in turn_logs.decided(asked.group, asked.session):
            if turn.key is not None:
                known[turn.key] = turn
        number = turn_logs.next_number(asked.group, asked.session)
        last = turn_logs.last_at(asked.group, asked.session)
        numbers: list[int] = []
        changes: list[TurnAdded] = []
        changed: Counter[str] = Counter()
        for place, (keyed, (said, data)) in enumerate(zip(payload.turns, screened, strict=True)):
            there = known.get(keyed.key)
            if there is not None:
                _check_same(there, keyed, said, data, place)
                numbers.append(there.number)
                continue
            at = at_or_later(keyed.at, last, to_milliseconds(now), f"payload.turns.{place}.at")
            turn = Turn(
                number=number + len(changes),
                at=at,
                role=keyed.role,
                sender=said.speaker,
                by=asked.sender,
                content=said.content,
                token_count=estimate_tokens(said.content),
                tools_used=said.tools_used,
                key=keyed.key,
                data=data,
            )
            last = at
            known[keyed.key] = turn
            numbers.append(turn.number)
            changes.append(TurnAdded(asked.group, asked.session, turn, dump_turn(turn, asked.request_id)))
            changed.update(said.changed)
        result = {"added": len(changes), "known": len(numbers) - len(changes), "turns": numbers}
        after = documents.after_turns(changes, now) if changes else ()
        return Outcome(with_neutralised(result, changed), (*changes, *after))

    return ChangeHandler(decide, prepare)


def _said_with_data(screen: Screen, asked: Asked, keyed: KeyedTurn, place: int) -> tuple[Said, str | None]:
    """Return the content and the data of a turn, without credentials. Raises Refusal."""
    said = said_in(screen, asked, keyed, f"payload.turns.{place}")
    if keyed.data is None:
        return said, None
    data, changed = screen.data(asked, f"payload.turns.{place}.data", keyed.data)
    return replace(said, changed=Counter(said.changed) + changed), data


def _check_same(there: Turn, keyed: KeyedTurn, said: Said, data: str | None, place: int) -> None:
    """Raise Refusal if the turn of a key has other words or data; a forgotten turn is not compared."""
    is_same = (there.role, there.content, there.data) == (keyed.role, said.content, data)
    if is_same or FORGOTTEN in there.content or FORGOTTEN in (there.data or ""):
        return
    field = f"payload.turns.{place}.key"
    raise Refusal(
        "conflict",
        f"{field}: turn {there.number} of this session has the key {keyed.key!r} and says something else: give what "
        "was said there another key; nothing was appended",
        field=field,
    )


def time_given(text: str, field: str) -> datetime:
    """Return a time of a request in whole milliseconds. Raises Refusal."""
    try:
        return to_milliseconds(parse_time(text).astimezone(UTC))
    except (ValueError, OverflowError):
        why = "is not a time that exists: write 2026-11-21T09:30:00Z"
        raise Refusal("invalid", f"{field} {why}", field=field) from None


def at_or_later(text: str | None, last: datetime | None, now: datetime, field: str) -> datetime:
    """Return when a turn was said, not before the turn before it and not in the future. Raises Refusal."""
    at = now if text is None else min(now, time_given(text, field))
    return at if last is None else max(at, last)


def _said_at(text: str, last: datetime | None, now: datetime) -> datetime:
    """Return when an imported turn was said. Raises Refusal."""
    at = time_given(text, "payload.at")
    if at > now:
        why = f"is in the future: here it is {time_stamp(now, 'milliseconds')}"
    elif last is not None and at < last:
        why = (
            f"is before the turn before it, which was said at {time_stamp(last, 'milliseconds')}: import turns in "
            "their order, into a session of their own"
        )
    else:
        return at
    raise Refusal("invalid", f"payload.at {why}; nothing was appended", field="payload.at")


def get_turns(turn_logs: TurnLogs, documents: Sessions) -> QueryHandler:
    """Return the handler of `get_turns`: turns as the log has them; those of a deleted session only with `whole`."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: GetTurns = asked.payload
        after, before = payload.after or 0, payload.before or MAX_NUMBER + 1
        is_back = payload.newest_first or False
        limit = _DEFAULT_TURNS if payload.limit is None else payload.limit
        deletion = Deletion() if payload.whole else documents.deletion(asked.group, asked.session)
        size, turns = 0, list[dict[str, Any]]()
        found = turn_logs.stored(asked.group, asked.session, after=after, before=before, newest_first=is_back)
        for logged in found:
            turn = logged.turn
            if not payload.whole and (logged.is_withdrawn or not deletion.shows(turn)):
                continue
            size += len(logged.line)
            if len(turns) == limit or (turns and size > MAX_REPLY_BYTES):
                return {"turns": turns, "has_more": True}
            more = {"sender": turn.sender, "key": turn.key, "data": data_in(logged.line), "by": turn.by}
            turns.append({**_message(turn), **more, **({"withdrawn": True} if logged.is_withdrawn else {})})
        return {"turns": turns, "has_more": False}

    return QueryHandler(answer)


def get_history(
    turn_logs: TurnLogs, documents: Sessions, *, default_budget_tokens: int, memory_window: int
) -> QueryHandler:
    """Return the handler of `get_history`; without consolidation it has the newest ten turns (AB1)."""

    def answer(asked: Asked, now: datetime) -> Mapping[str, Any]:
        payload: GetHistory = asked.payload
        budget = default_budget_tokens if payload.budget_tokens is None else payload.budget_tokens
        held = turn_logs.window(asked.group, asked.session).turns
        _, turns = documents.deletion(asked.group, asked.session).left(held[0 if memory_window else -MAX_KEPT :])
        if payload.max_messages is not None:
            turns = turns[-payload.max_messages :]
        history = format_history(turns, budget)
        return {
            "text": history.text,
            "messages": [_message(turn) for turn in history.turns],
            "tokens": history.tokens,
            "dropped": history.dropped,
            "shortened": history.is_shortened,
        }

    return QueryHandler(answer)


def _message(turn: Turn) -> dict[str, Any]:
    at = time_stamp(turn.at, "milliseconds")
    return {"role": turn.role, "content": turn.content, "sender": turn.shown_name, "turn": turn.number, "at": at}


_LOOK_ALIKES: Final = {
    # Letter -> case-folded characters that look like it. Source: Unicode Technical Standard 39, confusables.
    "a": "аɑαᴀ",
    "b": "ьвʙƅ",
    "c": "сϲᴄↄ",
    "d": "ԁᴅđ",
    "e": "еҽєᴇεɛ",
    "f": "ꜰƒϝ",
    "g": "ɡցɢ",
    "h": "һհнʜ",
    "j": "јϳᴊ",
    "k": "κкᴋ",
    "l": "i1|!ıιіɩɪӏǀł",
    "m": "мᴍ",
    "n": "ոηпɴ",
    "o": "0οоօσøᴏ",
    "p": "рρᴘ",
    "q": "ԛզ",
    "r": "гʀ",
    "s": "5$ѕꜱ",
    "t": "тτᴛ",
    "u": "υսцᴜ",
    "v": "νѵᴠ",
    "w": "ԝաѡωᴡ",
    "x": "хχ",
    "y": "уүγʏ",
    "z": "ᴢƶ",
}
_TO_LETTERS: Final = str.maketrans({look: letter for letter, looks in _LOOK_ALIKES.items() for look in looks})
_ROLES: Final = get_args(Role)


def looks_of(name: str) -> str:
    """Return a key that names share if a reader cannot tell them apart: case, accents, spaces and signs are ignored."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold()).translate(_TO_LETTERS)
    letters = "".join(character for character in folded if character.isalnum())
    return letters.replace("rn", "m").replace("vv", "w")


def speaker_of(sender: str | None, default: str, member: str = "payload.sender") -> str:
    """Return the name that a turn is shown under. Raises Refusal if it could forge another speaker's line.

    Args:
        member: the name's place in the request.
    """
    if sender is None:
        return default
    name = one_line(sender)
    if name.changed or is_blank(name.text) or "[" in name.text or "]" in name.text:
        raise Refusal("invalid", f"{member} must be one visible line without [ and ]", field=member)
    return name.text


def senders_of(home: Path, group: str) -> list[str]:
    """Return the names of the inboxes of a group. Raises WorldFailed."""
    try:
        return os.listdir(home / "data" / "ipc" / group)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise WorldFailed(f"the senders of {group} cannot be listed: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Speakers:
    """The names of a group and their owners.

    Args:
        agents: the agents of the home, by id.
    """

    home: Path
    agents: Callable[[], Mapping[str, Agent]]

    def check(self, asked: Asked, said: Mapping[str, tuple[str | None, str]]) -> None:
        """Raise Refusal (`forbidden`) if a name is somebody else's or looks like it. Reads the group's senders.

        Args:
            said: place in the request -> the shown name or None, and the role of its turn.
        """
        names = {member: name for member, (name, role) in said.items() if name not in (None, asked.sender, role)}
        taken = self.taken(asked.group, asked.sender, names.values())
        for member, name in names.items():
            if name in taken:
                whose = f"{member} {name!r} {taken[name]}"
                raise Refusal("forbidden", f"{whose}: a turn is shown under a name of its own", field=member)

    def taken(self, group: str, own: str, names: Iterable[str | None]) -> Mapping[str, str]:
        """Return name -> its owner, for the names that belong to somebody else. Reads the group's senders.

        Args:
            own: the folder of the sender who appends the turns.
        """
        wanted = {name: looks_of(name) for name in names if name is not None and name != own}
        if not wanted:
            return {}
        whose = {looks_of(name): f"is a name of the host, {name}" for name in (*SYSTEM_SENDERS, OPERATOR)}
        whose |= {looks_of(role): f"is the name of turns with the role {role}" for role in _ROLES}
        for agent in self.agents().values():
            if agent.id != own:
                whose |= {
                    looks_of(name): f"is the name of the agent {agent.id}" for name in (agent.id, agent.display_name)
                }
        for sender in senders_of(self.home, group):
            if sender != own:
                whose[looks_of(sender)] = f"is the name of the sender {sender}"
        return {name: whose[looks] for name, looks in wanted.items() if looks in whose}
