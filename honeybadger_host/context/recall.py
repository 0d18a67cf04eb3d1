"""Recalls memory for a message (RB2, RB11): entries, turns, notes and history, in one list.

A recollection stays in the context as long as the message it was recalled for. After that it can be recalled again: a
model is never assumed to know what it cannot see.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from honeybadger_agent.wire import Role
from honeybadger_host.context.recollections import Recollection, State, shortened
from honeybadger_host.context.subject import may_have_subject, reach_of
from honeybadger_host.errors import WorldFailed
from honeybadger_host.log import log
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.markdown.budget import format_history
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.search.documents import Kind
from honeybadger_host.search.index import Index
from honeybadger_host.search.lookups import Found, earned, name_of, note_as_edited
from honeybadger_host.settings import Recall
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.turn import VIA, Turn

if TYPE_CHECKING:
    from honeybadger_host.search.corpus import Corpus
    from honeybadger_host.search.ranking import Hit


_FEW = 8  # entries; turns and notes for a message that shares one rare word with memory
_NEWEST = 5  # entries shown at the beginning of a session when nothing matches
_LINE_TOKENS = 40  # of a line about; a search finds as many hits as such lines fit the budget
MAX_RANKED = 1000  # hits of one ranking
# Tokens of a turn that is shown with its answer; costs 1 point of LoCoMo's evidence in 2,000 tokens.
_SHORT_QUESTION_TOKENS = 40
_ENTRIES: tuple[Kind, ...] = ("entry",)
_SAID: tuple[Kind, ...] = ("turn", "note", "history")
_ROLES = frozenset(get_args(Role))  # the names of speakers who gave none


@dataclass(frozen=True, slots=True)
class Recalled:
    """The recollections for one message.

    Args:
        recollections: the most important first; there may be more than fit.
        why_none: why there are none.
        near_misses: id, hit and reason of the best of the entries that were not good enough.
        new: id, and number in the index or None for an entry, of those that earlier contexts did not show; see `shown`.
        turn: number of the turn that they are for.
    """

    recollections: Sequence[Recollection] = ()
    why_none: str | None = None
    near_misses: Sequence[tuple[str, Hit, str]] = ()
    new: Sequence[tuple[str, int | None]] = ()
    turn: int = 0

    def shown(self, kept: Sequence[Recollection], missing: Collection[str]) -> Recalled:
        """Return this without the recollections that another part of the context has.

        Args:
            kept: the recollections in the text.
            missing: ids of recollections without room.
        """
        new = [(one.id, None if one.is_entry else one.found.number) for one in kept if one.state != "in_view"]
        accounted = {*missing, *(one.id for one in kept)}
        told = [one for one in self.recollections if one.id in accounted]
        return replace(self, recollections=told, new=new)

    def rows(self, missing: Collection[str]) -> list[dict[str, Any]]:
        """Return a row for each recollection and near miss, as `wire.Recalled`.

        Args:
            missing: ids of recollections that did not fit into the context.
        """
        rows: list[dict[str, Any]] = []
        for one in self.recollections:
            row: dict[str, Any] = {"id": one.id, "kind": one.found.kind, "state": one.state}
            row |= {name: value for name, value in one.found.marks.items() if name.startswith("origin")}
            if one.hit is not None:
                row |= earned(one.hit)
            row["why"] = _why(one)
            if one.id in missing:
                row |= {"state": "near_miss", "why": "no room in recall.budget_tokens or context.budget_tokens"}
            rows.append(row)
        return rows + [
            {"id": id_, "kind": "entry", "state": "near_miss", **earned(hit), "why": why}
            for id_, hit, why in self.near_misses
        ]


def _why(one: Recollection) -> str:
    if one.state == "newest":
        return "nothing matches, and the session begins: the newest entries"
    if one.answered:
        return f"{one.answered} answers it"
    if one.state == "in_view":
        return f"recalled for turn {one.turn}, still shown"
    if one.hit is None or one.hit.terms:
        return "it matches the message"
    return "its conversation, speaker, date or meaning matches the message"


class _Asked(NamedTuple):
    """A message, and the part of its conversation that is shown.

    Args:
        turns: the replayed turns.
        current: number of the message's turn.
        entries: id -> turn it was recalled for, for the entries in view.
        said: id -> turn it was recalled for and number in the index, for turns, notes and history in view.
        is_first: whether no agent has answered in this session yet.
    """

    group: str
    session: str
    message: str
    now: datetime
    turns: Sequence[Turn]
    current: int
    entries: Mapping[str, int]
    said: Mapping[str, tuple[int, int]]
    is_first: bool


@dataclass(frozen=True, slots=True)
class ContextRecall:
    """Recalls for the contexts of all groups.

    Args:
        files: name the authors of notes.
        history_budget_tokens: limit of the replayed turns, which are still shown.
    """

    index: Index
    ledger: InjectionLedger
    files: GroupFiles
    settings: Recall
    history_budget_tokens: int

    def recall(self, group: str, session: str, message: str | None, turns: Sequence[Turn], now: datetime) -> Recalled:
        """Return the recollections for this message.

        Args:
            message: the user's text; None means the newest turn, if it is the user's.
            turns: the turns of the session's window, oldest first.
        """
        if not self.settings.enabled:
            return Recalled(why_none="recall.enabled is off")
        last = turns[-1] if turns else None
        current = (last.number if last else 0) + 1
        if message is None and last is not None and last.role == "user":
            message, current = last.content, last.number
        if message is None:
            return Recalled(why_none="there is no message to recall for")
        shown = format_history(turns, self.history_budget_tokens).turns
        oldest = shown[0].number if shown else current
        seen = self.ledger.in_view(group, session, oldest=oldest, current=current)
        asked = _Asked(
            group,
            session,
            message,
            now,
            turns,
            current,
            entries={id_: turn for id_, (turn, doc) in seen.items() if doc is None},
            said={id_: (turn, doc) for id_, (turn, doc) in seen.items() if doc is not None},
            is_first=not any(turn.role == "assistant" for turn in turns),
        )
        try:
            return replace(self._choose(asked), turn=current)
        except WorldFailed as error:
            log.error("recall.failed", group=group, error=str(error))
            return Recalled(why_none=f"the search index cannot be used: {error}")

    def _choose(self, asked: _Asked) -> Recalled:
        entries, talk, newest = self._search(asked)
        recollections, near_misses = self._entries(asked, entries)
        recollections += self._said(asked, talk)
        if not recollections:
            found = self.index.lookups.show(newest)
            recollections = [Recollection(found[n], "newest", asked.current) for n in newest if n in found]
        why_none = None if recollections else "nothing in long-term memory matches the message"
        return Recalled(recollections, why_none, near_misses=near_misses)

    def _search(self, asked: _Asked) -> tuple[list[Hit], list[Hit], list[int]]:
        """Return the hits among entries and among what was said, and the numbers of the newest entries."""
        index = self.index
        has_entries, has_subject = index.has_entries(asked.group), may_have_subject(asked.message)
        if not has_entries and not has_subject:
            return [], [], []
        vector = index.vector_of(asked.message)

        def ask(corpus: Corpus) -> tuple[list[Hit], list[Hit], list[int]]:
            from honeybadger_host.search.ranking import Filters, Ranking, newest

            ranking = Ranking(corpus, asked.message, asked.now, vector)
            expired = index.lookups.expired(asked.group, asked.now.timestamp()) if has_entries else []
            # a hit that shares no word with the message would fail `objection` and take the place of another
            filters = Filters(kinds=_ENTRIES, hidden=expired, needs_word=True)
            limit = 2 * _FEW + len(asked.entries)
            entries = ranking.best(limit, filters) if has_entries else []
            limit = min(MAX_RANKED, self.settings.budget_tokens // _LINE_TOKENS or MAX_RANKED)
            said = ranking.best(limit, Filters(kinds=_SAID)) if has_subject else []
            fallback = newest(corpus, limit=_NEWEST, filters=filters) if has_entries and asked.is_first else []
            return entries, said, fallback

        hits, _ = index.search(asked.group, ask)
        return hits

    def _entries(self, asked: _Asked, hits: Sequence[Hit]) -> tuple[list[Recollection], list[tuple[str, Hit, str]]]:
        """Return the entries, new ones first, and near misses."""
        from honeybadger_host.search.ranking import objection

        earlier, lookups = asked.entries, self.index.lookups
        numbers = lookups.entries(asked.group, earlier, asked.now.timestamp())
        found = lookups.show([*(hit.number for hit in hits), *numbers.values()])
        by_key = {found[hit.number].key: hit for hit in hits if hit.number in found}
        good = {key: hit for key, hit in by_key.items() if objection(hit) is None}
        new = [hit for key, hit in good.items() if key not in earlier][:_FEW]
        recollections = [Recollection(found[hit.number], "new", asked.current, hit) for hit in new]
        for key, turn in sorted(earlier.items(), key=lambda item: -item[1]):
            if key in numbers and numbers[key] in found:
                recollections.append(Recollection(found[numbers[key]], "in_view", turn, good.get(key)))
        missed = [
            (key, hit, objection(hit) or f"{_FEW} others match better")
            for key, hit in by_key.items()
            if hit not in new and key not in earlier
        ]
        return recollections, missed[:_FEW]

    def _said(self, asked: _Asked, hits: Sequence[Hit]) -> list[Recollection]:
        """Return turns and notes, matches first, then those in view."""
        lookups = self.index.lookups
        authors = {hit.author for hit in hits if hit.author.casefold() not in _ROLES}
        speakers = [author.rpartition(VIA)[0] or author for author in authors]
        most = {"all": len(hits), "few": _FEW, "nothing": 0}[reach_of(asked.message, hits, speakers)]
        shown = lookups.show([hit.number for hit in hits[: 2 * most]])  # some of them are the message
        found = {number: one for number, one in shown.items() if _is_new(one, asked)}
        best = [hit for hit in hits if hit.number in found][:most]
        questions = self._questions([found[hit.number] for hit in best])
        in_view = sorted(asked.said.items(), key=lambda item: -item[1][0])
        earlier = lookups.show([number for _, (_, number) in in_view])
        replayed = {f"{asked.session}#{turn.number}": turn.line for turn in asked.turns}
        made: dict[str, Recollection] = {}

        def add(one: Found, hit: Hit | None = None, answered: str = "") -> None:
            if (id_ := name_of(one)) not in made:
                turn, _ = asked.said.get(id_, (asked.current, 0))
                state: State = "in_view" if id_ in asked.said else "new"
                edited = note_as_edited(self.files, one)
                recollection = Recollection(edited, state, turn, hit, answered, replayed.get(id_))
                made[id_] = shortened(recollection, self.settings.budget_tokens)

        by_number = {hit.number: hit for hit in best}
        for hit in best:
            if (question := questions.get(hit.number)) is not None and _is_new(question, asked):
                add(question, by_number.get(question.number), name_of(found[hit.number]))
            add(found[hit.number], hit)
        for id_, (_, number) in in_view:
            if number in earlier and name_of(earlier[number]) == id_:
                add(earlier[number])
        return list(made.values())

    def _questions(self, answers: Sequence[Found]) -> dict[int, Found]:
        """Return number of a turn -> the turn before it, if that is short and has another speaker."""
        turns = {one.number: one for one in answers if one.kind == "turn"}
        before = self.index.lookups.before(list(turns)) if turns else {}
        found = self.index.lookups.show(list(before.values()))
        return {
            number: found[earlier]
            for number, earlier in before.items()
            if earlier in found
            and found[earlier].author != turns[number].author
            and estimate_tokens(found[earlier].text) <= _SHORT_QUESTION_TOKENS
        }


def _is_new(found: Found, asked: _Asked) -> bool:
    """Return whether a document is neither the message nor its turn."""
    if found.kind == "turn" and found.session == asked.session and int(found.key) >= asked.current:
        return False
    return found.text.strip() != asked.message.strip()
