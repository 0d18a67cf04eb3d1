"""`get_context`, and `preview_context` for the operator: a context is made, named and explained (HB5)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP
from honeybadger_agent.wire import GetContext, PreviewContext, Refusal
from honeybadger_host.context.maker import ContextMaker, ContextSettings, Question, result_of
from honeybadger_host.context.parts import Loaded
from honeybadger_host.context.past import PastContexts
from honeybadger_host.context.text import Context
from honeybadger_host.domain import NOBODY, Answer, Asked, Identity, Served
from honeybadger_host.memory.group_files import GroupText
from honeybadger_host.text.neutralise import estimate_tokens
from honeybadger_host.text.time_stamps import to_milliseconds

_ATTEMPTS: Final = 3  # times that a context is made while its group is written to


@dataclass(frozen=True, slots=True)
class ContextHandler:
    """Answers both types.

    Args:
        maker: of contexts as memory is now.
        identity_of: sender -> its identity, when it is an agent of this home.
        written_seq: every change up to it stands in the files.
        has_changed: whether some groups were written to behind a seq.
    """

    maker: ContextMaker
    identity_of: Callable[[str], Identity]
    written_seq: Callable[[], int]
    has_changed: Callable[[Collection[str], int], bool]
    past: PastContexts

    def answer(self, asked: Asked, now: datetime) -> Answer:
        """Return a `ContextResult`. Raises Refusal, WorldFailed."""
        payload: GetContext = asked.payload
        now = to_milliseconds(now)  # as it is kept
        group, settings = asked.group, self.maker.settings
        tokens = None if payload.message is None else estimate_tokens(payload.message)
        budget = _budget_of(payload, settings.budget_tokens, tokens or 0)
        question = Question(
            group, asked.session, payload.message, tokens, budget, payload.most_turns, parts=payload.parts
        )
        identity = self._identity(asked, payload)
        if payload.as_of is not None:
            sender = payload.agent if isinstance(payload, PreviewContext) else asked.sender
            return Answer(self.past.answer(question, payload.as_of, sender, identity, now))
        for _ in range(_ATTEMPTS):
            seq = self.written_seq()
            made = self.maker.make(question, identity, now)
            if not (is_torn := self.has_changed((group, GLOBAL_GROUP), seq)):
                break
        hash_, stable_hash = _hashes_of(made.context)
        result = result_of(made, hash_, stable_hash, seq)
        if payload.message is not None:
            result["messages"] = [{"role": "user", "content": payload.message}]
        if isinstance(payload, PreviewContext):
            return Answer(result)
        served = Served(
            hash_,
            group,
            asked.session,
            asked.sender,
            seq,
            round(now.timestamp() * 1000),
            _json_of(settings),
            _json_of(identity),
            budget,
            tokens,
            payload.most_turns,
            made.skips_newest,
            {file: _named(loaded) for file, loaded in made.files.items()},
            [(one.id, one.state, one.turn, one.checksum) for one in made.recalled.recollections],
            is_torn,
            made.recalled.injection,
            payload.parts,
        )
        return Answer(result, served)

    def _identity(self, asked: Asked, payload: GetContext) -> Identity:
        """Return whose context it is. Raises Refusal."""
        if not isinstance(payload, PreviewContext):
            return self.identity_of(asked.sender)
        if payload.agent is None:
            return NOBODY
        if (identity := self.identity_of(payload.agent)) == NOBODY:
            why = f"there is no agent {payload.agent!r}: `honeybadger-host status` lists them"
            raise Refusal("not_found", why, field="payload.agent")
        return identity


def _budget_of(payload: GetContext, default_tokens: int, message_tokens: int) -> int:
    """Return the budget of system text and message in tokens; four characters are one. 0 means no limit."""
    budget = default_tokens if payload.budget_tokens is None else payload.budget_tokens
    if payload.max_characters is None:
        return budget
    most = max(1, payload.max_characters // 4) + message_tokens
    return min(budget, most) if budget else most


@lru_cache(64)
def _json_of(value: ContextSettings | Identity) -> str:
    return orjson.dumps(value).decode()


@lru_cache(16)
def _begun(stable: str) -> hashlib._Hash:
    """Return the SHA-256 of a beginning; it seldom changes, and hashing 64 KiB takes 0.1 ms."""
    return hashlib.sha256(stable.encode())


def _hashes_of(context: Context) -> tuple[str, str]:
    begun = _begun(context.stable)
    whole = begun.copy()
    whole.update(context.system[len(context.stable) :].encode())
    return whole.hexdigest()[:32], begun.hexdigest()[:32]


def _named(loaded: Loaded) -> str | None:
    """Return what `Served` keeps of a file."""
    if loaded is None:
        return ""
    return loaded.digest if isinstance(loaded, GroupText) else None
