"""Limits the tokens that curation may use in a day (UTC): in all, by group and by kind. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

from honeybadger_host.curation.proposal import Kind
from honeybadger_host.storage.journal_schema import Spent


class Budget(NamedTuple):
    """A setting, the tokens used today, and its limit."""

    setting: str
    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits of a home.

    Args:
        tokens_per_day: limit of all groups and kinds together; 0: no limit.
        groups, kinds: name -> tokens per day; a name that is left out has no separate limit.
    """

    tokens_per_day: int = 0
    groups: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[Kind, int] = field(default_factory=dict)

    def used(self, spent: Sequence[Spent], booked: Spent | None = None) -> Iterator[Budget]:
        """Yield the budgets with the tokens that a day has used.

        Args:
            booked: yield only the budgets that limit this call; None: all.
        """
        if self.tokens_per_day:
            yield Budget("curation.tokens_per_day", sum(row.tokens for row in spent), self.tokens_per_day)
        for member, limits in (("group", self.groups), ("kind", self.kinds)):
            for name, limit in limits.items():
                if booked is None or getattr(booked, member) == name:
                    used = sum(row.tokens for row in spent if getattr(row, member) == name)
                    yield Budget(f"curation.{member}s.{name}", used, limit)

    def refusal(self, spent: Sequence[Spent], booked: Spent) -> str | None:
        """Return why a question must wait, with the budget and the time of its reset; None when it may be asked.

        Args:
            spent: the other calls on the day of `booked`.
        """
        for setting, used, limit in self.used(spent, booked):
            if booked.tokens > limit:
                return f"this needs up to {booked.tokens} tokens, and {setting} is {limit}: it waits until that is more"
            if used + booked.tokens > limit:
                tomorrow = date.fromisoformat(booked.day) + timedelta(days=1)
                return (
                    f"{used} tokens were used today, this needs up to {booked.tokens}, and {setting} is {limit}: "
                    f"it waits until {tomorrow} 00:00 UTC"
                )
        return None
