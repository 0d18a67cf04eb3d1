"""Asks a model a question: the cost is booked before the call and corrected after it; the journal keeps the answer.

So a host that is killed never pays twice for the answer to a question, and each call counts in the budgets of its day.
"""

import hashlib
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args

import anyio.to_thread
import orjson
from pydantic import model_validator
from pydantic_core import PydanticCustomError, from_json

from honeybadger_agent.mailbox import CONSOLIDATOR
from honeybadger_agent.models.model import Model, ModelFailed, ModelSaid, Prompt, UserSaid
from honeybadger_agent.turn.thinking import Visible
from honeybadger_agent.wire.refusals import nearest
from honeybadger_host.errors import FileProblem, WorldFailed
from honeybadger_host.files.safe_files import names_in
from honeybadger_host.journal.journal import Journal
from honeybadger_host.journal.schema import Spent, TurnKey
from honeybadger_host.log import log
from honeybadger_host.memory.edited import Edited, ModelT, checked
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.settings import CuratedKind, Curation, Settings
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.threads import Threads

# A silent model is given up after this time, since it blocks one of two places; `model.timeout_seconds` replaces it.
SILENCE_SECONDS = 60.0
# Accepts line ends in texts, which models write, and keeps `12.10`, the tenth sentence of turn 12, as a text.
_DECODER = json.JSONDecoder(strict=False, parse_float=str)
_TEXT_OR_DECIMAL = re.compile(r'"(?:[^"\\]|\\.)*"?|\d+\.\d+', re.DOTALL)


class OverBudget(Exception):
    """A budget does not allow this question today."""


class WrongAnswer(Exception):
    """The model's answer does not have the requested form; the message says why."""


# Errors after which a pass has changed nothing and is repeated later.
FAILED = (OverBudget, ModelFailed, WrongAnswer, WorldFailed, FileProblem)


# ------------------------------------------------------------------------------------------------------------- budgets


class Budget(NamedTuple):
    """A setting, the tokens used today, and its limit."""

    setting: str
    used: int
    limit: int


def budgets_used(limits: Curation, spent: Sequence[Spent], booked: Spent | None = None) -> Iterator[Budget]:
    """Yield the budgets of a day (UTC) with the tokens that it has used.

    Args:
        booked: yield only the budgets that limit this call; None: all.
    """
    if limits.tokens_per_day:
        yield Budget("curation.tokens_per_day", sum(row.tokens for row in spent), limits.tokens_per_day)
    for member, of_members in (("group", limits.groups), ("kind", limits.kinds)):
        for name, limit in of_members.items():
            if booked is None or getattr(booked, member) == name:
                tokens = sum(row.tokens for row in spent if getattr(row, member) == name)
                yield Budget(f"curation.{member}s.{name}", tokens, limit)


def check_budgets(limits: Curation, spent: Sequence[Spent], booked: Spent) -> None:
    """Raise OverBudget if a question must wait, with the budget and the time of its reset.

    Args:
        spent: the other calls on the day of `booked`.
    """
    for setting, tokens, limit in budgets_used(limits, spent, booked):
        if tokens + booked.tokens > limit:
            tomorrow = date.fromisoformat(booked.day) + timedelta(days=1)
            raise OverBudget(
                f"{tokens} tokens were used today, this needs up to {booked.tokens}, and {setting} is {limit}: "
                f"it waits until {tomorrow} 00:00 UTC, or until that is more"
            )


# -------------------------------------------------------------------------------------------------------- the question


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a model: a prompt and a text. Its name is unique in the group."""

    group: str
    name: str
    kind: CuratedKind
    system: str
    text: str

    @property
    def key(self) -> TurnKey:
        return TurnKey(self.group, CONSOLIDATOR, self.name)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the name, the prompt and the text: a kept answer to another text does not count."""
        return hashlib.sha256(f"{self.name}\0{self.system}\0{self.text}".encode()).digest()


class Answer(NamedTuple):
    """A model's answer, and what it cost."""

    text: str
    model: str
    input_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Asker:
    """Asks the model of curation. Event loop.

    Args:
        _writer: returns the thread that writes the journal.
        open_model: opens the model; raises ModelFailed. None: there is none, rules decide.
        _clean: removes from an answer what must not become memory.
        _reserved: tokens that a running question may need beyond the booked ones.
    """

    _journal: Journal
    _writer: Callable[[], Threads]
    open_model: Callable[[], Awaitable[Model]] | None
    _clean: Callable[[str], str]
    _settings: Settings
    _reserved: dict[TurnKey, Spent] = field(default_factory=dict)

    @property
    def spent_today(self) -> Sequence[Spent]:
        """The tokens used and booked today."""
        return self._journal.spent(_today())

    async def ask(self, question: Question) -> Answer | None:
        """Return the answer to a question; a kept answer is returned without asking again.

        None: the question has no text, or there is no model.

        Raises:
            OverBudget, ModelFailed, WorldFailed: ask again later.
        """
        if self.open_model is None or not question.text:
            return None
        for step in map(orjson.loads, await self.note(question)):
            if "text" in step:
                return Answer(**step)
        model = await self.open_model()
        prompt = estimate_tokens(question.system) + estimate_tokens(question.text)
        most = Spent(_today(), question.group, question.kind, prompt + self._settings.model.max_output_tokens)
        reserved = [*self.spent_today, *(each for each in self._reserved.values() if each.day == most.day)]
        check_budgets(self._settings.curation, reserved, most)
        self._reserved[question.key] = most
        try:
            said, booked = await self._said(model, question, most, prompt)
        finally:
            del self._reserved[question.key]
        used_in = prompt if said.input_tokens is None else said.input_tokens
        used_out = estimate_tokens(said.text) if said.output_tokens is None else said.output_tokens
        answer = Answer(self._clean(said.text), model.name, used_in, used_out)
        await self._keep(question, orjson.dumps(answer._asdict()), most._replace(tokens=used_in + used_out - booked))
        return answer

    async def note(self, question: Question) -> Sequence[bytes]:
        """Keep a question in the journal, so that it is asked later, also after a restart; return its kept steps.

        Raises WorldFailed.
        """
        begun = await self._writer().run(self._journal.begin_turn, question.key, question.digest)
        return begun.steps

    async def begun(self, prefix: str) -> Sequence[TurnKey]:
        """Return the questions with this prefix that have no proposal yet. Raises WorldFailed."""
        keys = await anyio.to_thread.run_sync(self._journal.unfinished, CONSOLIDATOR)
        return [key for key in keys if key.request.startswith(prefix)]

    async def unfinished(self, group: str, prefix: str) -> str | None:
        """Return the name of one of a group's questions with this prefix, or None. Raises WorldFailed."""
        return max((key.request for key in await self.begun(prefix) if key.group == group), default=None)

    async def forget(self, question: Question) -> None:
        """Forget a useless answer: the next attempt asks the model again."""
        await self._writer().run(self._journal.commit, (), (), [question.key])

    async def _said(self, model: Model, question: Question, most: Spent, prompt: int) -> tuple[ModelSaid, int]:
        """Return the answer of a model, and the tokens that are booked for it.

        Since the host may be killed at any moment, the journal always has at least the cost so far, and at most twice
        the cost.
        """
        booked, heard, limits = 0, 0.0, self._settings.model
        seconds = limits.timeout_seconds if "timeout_seconds" in limits.model_fields_set else SILENCE_SECONDS
        silence = anyio.CancelScope(deadline=anyio.current_time() + seconds)

        async def book() -> None:
            nonlocal booked
            cost = prompt + math.ceil(heard)
            more = max(cost, min(2 * cost, most.tokens)) - booked
            await self._keep(question, b"{}", most._replace(tokens=more))
            booked += more
            self._reserved[question.key] = most._replace(tokens=max(0, most.tokens - booked))

        async def hear(piece: str) -> None:
            nonlocal heard
            silence.deadline = anyio.current_time() + seconds
            heard += estimate_tokens(4 * piece) / 4
            if prompt + heard > booked:
                await book()

        await book()
        said = None
        try:
            with silence:
                said = await model.answer(Prompt(question.system, [UserSaid(question.text)], is_booked=True), hear)
        except ModelFailed as failure:
            if failure.is_free:
                await self._keep(question, b"{}", most._replace(tokens=-booked))
            raise
        if said is None:
            raise ModelFailed(f"{model.name} said nothing for {seconds:g} s", is_passing=True)
        return said, booked

    async def _keep(self, question: Question, step: bytes, spent: Spent) -> None:
        """Keep a step of a question and book tokens, in one commit. Raises WorldFailed."""
        await self._writer().run(self._journal.keep_step, question.key, step, spent)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


# ---------------------------------------------------------------------------------------------------------- the answer


class Answered(Edited):
    """An answer that has at least one of its members."""

    @model_validator(mode="after")
    def _answers_something(self) -> Self:
        members = type(self).model_fields
        if not self.model_fields_set & members.keys():
            raise PydanticCustomError("must_be", "an object with one of {members}", {"members": ", ".join(members)})
        return self


def read_answer(text: str, wanted: type[ModelT]) -> ModelT:
    """Return the answer in a text; the JSON may follow thoughts or be inside a fence or prose.

    An answer that breaks off is returned up to its last whole item. Raises WrongAnswer.
    """
    text = Visible.of(text).text
    begin = text.find("{")
    if begin < 0:
        raise WrongAnswer(f"the answer has no JSON object: {text.strip()!r:.60}")
    try:
        return checked(wanted, _decoded(text[begin:]))
    except ValueError as error:
        raise WrongAnswer(f"the answer is wrong: {error}") from None


def _decoded(text: str) -> Any:
    """Return the JSON object that a text begins with, or the complete part of a broken one. Raises ValueError."""
    try:
        return _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError):
        begun = text.rstrip("0123456789.")  # a number at the end may be incomplete
        whole = from_json(_TEXT_OR_DECIMAL.sub(_as_text, begun), allow_partial=True)
        if not any(whole.values()):
            raise ValueError("it breaks off before its first item") from None
        return whole


def _as_text(found: re.Match[str]) -> str:
    part = found[0]
    return part.replace("\n", "\\n") if part.startswith('"') else f'"{part}"'


# --------------------------------------------------------------------------------------------------------- the prompts

DIRECTIVES_FOLDER = "config/directives"
DirectiveName: TypeAlias = Literal["consolidation", "prose", "enrichment", "dream", "pref-dream", "memory-rules"]
NAMES: tuple[DirectiveName, ...] = get_args(DirectiveName)
RULES = "{memory-rules}"  # in a prompt: the rules for what is remembered go there


def read_directive(group_files: GroupFiles, name: DirectiveName) -> str:
    """Return the present prompt with its rules: from its file if that is good, else the built-in one. Any thread."""
    try:
        text = _own_text(group_files, name) or built_in(name)
    except FileProblem as problem:
        log.error(
            "directive.refused",
            file=problem.file,
            why=problem.message,
            now_what="mend or remove it; until then the built-in prompt is used",
        )
        text = built_in(name)
    return text if name == "memory-rules" else text.replace(RULES, read_directive(group_files, "memory-rules"))


def directive_file(name: DirectiveName) -> str:
    """Return the file that replaces a built-in prompt, below the home folder."""
    return f"{DIRECTIVES_FOLDER}/{name}.md"


@cache
def built_in(name: DirectiveName) -> str:
    """Return the prompt that comes with the host."""
    return files(__package__).joinpath("prompts", f"{name}.md").read_text("utf-8").strip()


def check_directives(home: Path) -> Iterator[tuple[str, str]]:
    """Yield (file, its problem and the remedy) for `config/directives/`."""
    group_files = GroupFiles(home)
    for name in NAMES:
        try:
            _own_text(group_files, name)
        except FileProblem as problem:
            yield problem.file, problem.message
    known = [f"{name}.md" for name in NAMES]
    for file in sorted(names_in(home / DIRECTIVES_FOLDER)):
        if not file.startswith(".") and file not in known:
            yield f"{DIRECTIVES_FOLDER}/{file}", f"is not read: {nearest(file, known)}"


def _own_text(group_files: GroupFiles, name: DirectiveName) -> str | None:
    """Return the text of a prompt's file, or None if there is no file. Raises FileProblem."""
    file = directive_file(name)
    found = group_files.read(file)
    if found is None:
        return None
    if not found.clean.strip():
        raise FileProblem(file, "is blank: write the prompt, or remove the file")
    return found.clean.strip()
