"""Asks a model one question: the cost is booked before the call and settled after, the answer kept in the journal.

A host that is killed never pays twice for an answer, and no call goes uncounted in the budget of a day.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

import anyio
import anyio.to_thread
import orjson

from honeybadger_agent.mailbox import CONSOLIDATOR
from honeybadger_agent.models.model import Model, ModelFailed, ModelSaid, Prompt, UserSaid
from honeybadger_host.curation.answers import WrongAnswer
from honeybadger_host.curation.budgets import Budget, Budgets
from honeybadger_host.errors import FileProblem, WorldFailed
from honeybadger_host.storage.journal import Journal
from honeybadger_host.storage.journal_schema import Spent, TurnKey
from honeybadger_host.text.neutralise import estimate_tokens

SILENCE_SECONDS = 60.0  # a model that hangs gives its place, one of two, back after this
_MAX_ANSWER_SECONDS: Final = 600.0
_MAX_ANSWER_CHARACTERS: Final = 400_000  # a longer answer is cut
ATTEMPTS: Final = 3  # of one question, when the host ends during each of them

ResultT = TypeVar("ResultT")


class OverBudget(Exception):
    """A budget does not allow this question today."""


class TooOften(Exception):
    """The host ended during each attempt to ask this."""


# Errors of a pass that changed nothing and is made again later.
FAILED: Final = (OverBudget, ModelFailed, WrongAnswer, WorldFailed, FileProblem)


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a model: a prompt and a text. Its name is unique in the group."""

    group: str
    name: str
    kind: str
    system: str
    text: str

    @property
    def key(self) -> TurnKey:
        return TurnKey(self.group, CONSOLIDATOR, self.name)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the name."""
        return hashlib.sha256(self.name.encode()).digest()

    @property
    def prompt_digest(self) -> str:
        """SHA-256 of the prompt."""
        return hashlib.sha256(self.system.encode()).hexdigest()


class Answer(NamedTuple):
    """A model's answer.

    Args:
        asked: the text of the question; of the first attempt when the host was killed after the answer.
    """

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    asked: str


@dataclass(slots=True)
class Asker:
    """Asks the model that looks after memory. Event loop.

    Args:
        _writer_slot: limiter for writing to the journal.
        _open_model: opens the model; raises ModelFailed.
        _clean: removes text that must not become memory from an answer.
        max_output_tokens: limit of one answer, for the estimate.
        tokens: kind -> tokens used since the start.
        _reserved: running question -> tokens that it may need besides those that are booked.
    """

    _journal: Journal
    _writer_slot: Callable[[], anyio.CapacityLimiter]
    _open_model: Callable[[], Awaitable[Model]]
    _clean: Callable[[str], str]
    _budgets: Budgets
    max_output_tokens: int
    tokens: Counter[str] = field(default_factory=Counter)
    _reserved: dict[TurnKey, Spent] = field(default_factory=dict)
    _spent: tuple[str, Sequence[Spent]] = field(init=False)

    def __post_init__(self) -> None:
        self._spent = (_today(), self._journal.spent(_today()))

    @property
    def spent_today(self) -> Sequence[Spent]:
        """The tokens used and booked today."""
        day, spent = self._spent
        return spent if day == _today() else []

    @property
    def budgets(self) -> Sequence[Budget]:
        """The budgets, with the tokens used today."""
        return list(self._budgets.used(self.spent_today))

    async def ask(self, question: Question) -> Answer:
        """Return the answer to a question; a kept answer is returned without asking again.

        Raises:
            OverBudget, ModelFailed, WorldFailed: ask again later.
            TooOften: go on without an answer.
        """
        key = question.key
        begun = await self._write(lambda: self._journal.begin_turn(key, question.digest))
        if (kept := _kept_answer(begun.steps)) is not None:
            return kept
        try:
            if begun.attempts > ATTEMPTS:
                raise TooOften
            return await self._asked(question)
        except (anyio.get_cancelled_exc_class(), OverBudget, ModelFailed, WorldFailed, TooOften):
            await self._give_up(key)
            raise

    async def note(self, question: Question) -> None:
        """Keep a question in the journal, to be asked later, even after a restart. Raises WorldFailed."""
        await self._write(lambda: self._journal.begin_turn(question.key, question.digest))
        await self._give_up(question.key)

    async def begun(self, prefix: str) -> Sequence[TurnKey]:
        """Return the questions with this prefix that have no proposal yet. Raises WorldFailed."""
        keys = await anyio.to_thread.run_sync(self._journal.unfinished, CONSOLIDATOR)
        return [key for key in keys if key.request.startswith(prefix)]

    async def unfinished(self, group: str, prefix: str) -> str | None:
        """Return the name of one of a group's questions with this prefix, or None. Raises WorldFailed."""
        names = [key.request for key in await self.begun(prefix) if key.group == group]
        return max(names, default=None)

    async def forget(self, question: Question) -> None:
        """Forget a useless answer: the next attempt asks the model again."""
        await self._write(lambda: self._journal.forget_turn(question.key))

    async def _asked(self, question: Question) -> Answer:
        model = await self._open_model()
        prompt = estimate_tokens(question.system) + estimate_tokens(question.text)
        most = Spent(_today(), question.group, question.kind, prompt + self.max_output_tokens)
        reserved = [*self.spent_today, *(each for each in self._reserved.values() if each.day == most.day)]
        if (why := self._budgets.refusal(reserved, most)) is not None:
            raise OverBudget(why)
        self._reserved[question.key] = most
        try:
            said, booked = await self._said(model, question, most, prompt)
        finally:
            del self._reserved[question.key]
        text = self._clean(said.text[:_MAX_ANSWER_CHARACTERS])
        used_in = prompt if said.input_tokens is None else said.input_tokens
        used_out = estimate_tokens(said.text) if said.output_tokens is None else said.output_tokens
        answer = Answer(text, model.name, used_in, used_out, question.text)
        await self._keep(question, _dump_answer(answer), most._replace(tokens=used_in + used_out - booked))
        self.tokens[question.kind] += used_in + used_out
        return answer

    async def _said(self, model: Model, question: Question, most: Spent, prompt: int) -> tuple[ModelSaid, int]:
        """Return the answer of a model, and the tokens that are booked for it.

        The journal has always at least the cost so far, and at most twice of it: the host may be killed at any moment.
        """
        booked, heard = 0, 0.0
        silence = anyio.CancelScope(deadline=anyio.current_time() + SILENCE_SECONDS)

        async def book(step: bytes) -> None:
            nonlocal booked
            cost = prompt + math.ceil(heard)
            more = max(cost, min(2 * cost, most.tokens)) - booked
            await self._keep(question, step, most._replace(tokens=more))
            booked += more
            self._reserved[question.key] = most._replace(tokens=max(0, most.tokens - booked))

        async def hear(piece: str) -> None:
            nonlocal heard
            silence.deadline = anyio.current_time() + SILENCE_SECONDS
            heard += estimate_tokens(4 * piece) / 4
            if prompt + heard > booked:
                await book(b"{}")

        await book(orjson.dumps({"asked": question.text}))
        said = None
        try:
            with anyio.move_on_after(_MAX_ANSWER_SECONDS), silence:
                said = await model.answer(Prompt(question.system, [UserSaid(question.text)], is_booked=True), hear)
        except ModelFailed as failure:
            if failure.is_free:
                await self._keep(question, b"{}", most._replace(tokens=-booked))
            raise
        if said is None:
            silent = f"said nothing for {SILENCE_SECONDS:g} s"
            endless = f"did not come to an end within {_MAX_ANSWER_SECONDS:g} s"
            why = silent if silence.cancelled_caught else endless
            raise ModelFailed(f"{model.name} {why}", is_passing=True)
        return said, booked

    async def _keep(self, question: Question, step: bytes, spent: Spent) -> None:
        """Keep a step of a question and book tokens, in one commit. Raises WorldFailed."""

        def keep() -> None:
            self._journal.keep_step(question.key, step, spent)
            self._spent = (spent.day, self._journal.spent(spent.day))

        await self._write(keep)

    async def _give_up(self, key: TurnKey) -> None:
        """End an attempt without counting it: the host did not end during it."""
        with anyio.CancelScope(shield=True), contextlib.suppress(WorldFailed):
            await self._write(lambda: self._journal.give_up_turn(key))

    async def _write(self, what: Callable[[], ResultT]) -> ResultT:
        return await anyio.to_thread.run_sync(what, limiter=self._writer_slot())


def _dump_answer(answer: Answer) -> bytes:
    kept: dict[str, Any] = {**answer._asdict()}
    del kept["asked"]  # the step before it has the text
    return orjson.dumps(kept)


def _kept_answer(steps: Sequence[bytes]) -> Answer | None:
    """Return the answer that an earlier attempt kept; None when there is none."""
    asked = ""
    for step in steps:
        value = orjson.loads(step)
        if "text" in value:
            return Answer(**value, asked=asked)
        asked = value.get("asked", asked)
    return None


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
