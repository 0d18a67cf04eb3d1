"""Recall of contexts: the share of the evidence in `get_context`, asked over the protocol, and what else could."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.hosting import new_home, running
from bench.recall.cases import Conversation, Question, Turn
from bench.recall.systems import System, fts5, fts5_porter
from honeybadger_agent import SyncClient
from honeybadger_host.text.neutralise import estimate_tokens

BUDGETS = (2000, 4000, 8000)
NEEDS_NOTHING = Path(__file__).with_name("sets") / "needs-nothing.txt"
_AT_ONCE = 200
_SEARCHED = 100
HEAD = "| system | questions | 2,000 tokens | 4,000 | 8,000 |\n|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Group:
    """A conversation as a group of a home has it.

    Args:
        lines: of each turn, as a context shows it.
    """

    name: str
    conversation: Conversation
    lines: Sequence[str]

    @property
    def questions(self) -> list[Question]:
        return [question for question in self.conversation.questions if question.is_counted]


def rows(base: Path, conversations: Sequence[Conversation]) -> Iterator[str]:
    """Yield the lines of a table: per cent of the evidence that a context has, in each budget."""
    with new_home(base) as home:
        groups = [Group(f"talk-{number}", talk, _lines(talk)) for number, talk in enumerate(conversations)]
        with running(home):
            for group in groups:
                _said(home, group)
        asked = sum(len(group.questions) for group in groups)
        newest = {budget: _share(groups, budget, _newest) for budget in BUDGETS}
        yield _row("the newest turns", asked, newest)
        for name, system in (("FTS5", fts5), ("FTS5 porter", fts5_porter)):
            yield _row(name, asked, {budget: _ranked(groups, budget, system) for budget in BUDGETS})
        shares: dict[str, dict[int, float]] = {"search_memory, 100 hits": {}, "**get_context**": {}}
        needless: dict[int, float] = {}
        for budget in BUDGETS:
            with running(home, [f"recall.budget_tokens={budget}"]):
                shares["search_memory, 100 hits"][budget] = _searched(home, groups, budget)
                shares["**get_context**"][budget] = _recalled(home, groups)
                needless[budget] = _needless(home, groups)
        for name, found in shares.items():
            yield _row(name, asked, found)
        yield _row("tokens recalled for a message that needs nothing", len(_messages()), needless)


def _row(name: str, count: int, figures: Mapping[int, float]) -> str:
    return f"| {name} | {count} | {' | '.join(f'{figures[budget]:.1f}' for budget in BUDGETS)} |"


def _lines(talk: Conversation) -> list[str]:
    numbers: dict[str, int] = {}
    lines = []
    for turn in talk.turns:
        numbers[turn.session] = number = numbers.get(turn.session, 0) + 1
        day = "" if math.isnan(turn.at) else f"{datetime.fromtimestamp(turn.at, UTC):%Y-%m-%d}, "
        lines.append(f"- [{turn.session}#{number}] ({day}{turn.author}): {turn.text}\n")
    return lines


def _said(home: Path, group: Group) -> None:
    """Append the turns of a conversation, each session as one."""
    sessions: dict[str, list[Turn]] = {}
    for turn in group.conversation.turns:
        sessions.setdefault(turn.session, []).append(turn)
    for session, turns in sessions.items():
        client = SyncClient(home, group.name, "bench", session=session, timeout_seconds=60)
        for begin in range(0, len(turns), _AT_ONCE):
            client.append_turns(
                [_appended(number, turn) for number, turn in enumerate(turns[begin : begin + _AT_ONCE], begin)]
            )


def _appended(number: int, turn: Turn) -> dict[str, str]:
    is_assistant = turn.author.casefold() == "assistant"
    appended = {"key": str(number), "role": "assistant" if is_assistant else "user", "content": turn.text}
    if turn.author.casefold() not in ("user", "assistant"):
        appended["sender"] = turn.author
    if not math.isnan(turn.at):
        appended["at"] = datetime.fromtimestamp(turn.at, UTC).isoformat()
    return appended


def _fitting(group: Group, places: Iterable[int], budget: int) -> set[int]:
    """Return the first places whose lines fit a budget."""
    kept = set()
    for place in places:
        cost = estimate_tokens(group.lines[place]) + 1
        if cost <= budget:
            budget -= cost
            kept.add(place)
    return kept


def _evidence(found: set[int], question: Question) -> float:
    return len(found & set(question.evidence)) / len(question.evidence)


def _mean(shares: Sequence[float]) -> float:
    return sum(shares) / len(shares)


def _newest(group: Group) -> Iterable[int]:
    return reversed(range(len(group.lines)))


def _share(groups: Sequence[Group], budget: int, places: Callable[[Group], Iterable[int]]) -> float:
    return 100 * _mean(
        [
            _evidence(_fitting(group, places(group), budget), question)
            for group in groups
            for question in group.questions
        ]
    )


def _ranked(groups: Sequence[Group], budget: int, system: System) -> float:
    shares = []
    for group in groups:
        rank = system(group.conversation)
        shares += [
            _evidence(_fitting(group, rank(question, budget // 8), budget), question) for question in group.questions
        ]
    return 100 * _mean(shares)


def _searched(home: Path, groups: Sequence[Group], budget: int) -> float:
    shares = []
    for group in groups:
        place_of = {line[3 : line.index("]")]: place for place, line in enumerate(group.lines)}
        client = SyncClient(home, group.name, "bench", timeout_seconds=60)
        for question in group.questions:
            hits = client.search_memory(question.text, limit=_SEARCHED).hits
            places = [place_of[hit.id] for hit in hits if hit.id in place_of]
            shares.append(_evidence(_fitting(group, places, budget), question))
    return 100 * _mean(shares)


def _recalled(home: Path, groups: Sequence[Group]) -> float:
    """Return the share of the evidence whose whole text stands in a context."""
    shares = []
    for group in groups:
        client = SyncClient(home, group.name, "bench", session="asked", timeout_seconds=60)
        for question in group.questions:
            system = client.get_context(question.text).system
            found = {place for place in question.evidence if group.conversation.turns[place].text in system}
            shares.append(_evidence(found, question))
    return 100 * _mean(shares)


def _messages() -> list[str]:
    return NEEDS_NOTHING.read_text().splitlines()


def _needless(home: Path, groups: Sequence[Group]) -> float:
    """Return the mean of the tokens that are recalled for messages that need nothing."""
    tokens = []
    for group in groups:
        client = SyncClient(home, group.name, "bench", session="asked", timeout_seconds=60)
        for message in _messages():
            sections = client.get_context(message).sections
            tokens += [row.tokens for row in sections if row.title == "Recalled from long-term memory"]
    return _mean(tokens)
