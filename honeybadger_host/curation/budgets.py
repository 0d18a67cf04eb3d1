"""How many tokens models may cost in a day (UTC) that look after memory: all of them, by group and by kind. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

from honeybadger_host.curation.proposal import Kind
from honeybadger_host.storage.journal_schema import Spent


class Budget(NamedTuple):
    """A limit, and what the day has used of it so far.

    Args:
        setting: the setting that says so.
    """

    setting: str
    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits of a home.

    Args:
        tokens_per_day: of all groups and kinds; 0: no limit.
        groups, kinds: name -> tokens per day; one that is not named has no limit of its own.
    """

    tokens_per_day: int = 0
    groups: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[Kind, int] = field(default_factory=dict)

    def used(self, spent: Sequence[Spent]) -> Iterator[Budget]:
        """Yield all budgets with what a day has used of them."""
        if self.tokens_per_day:
            yield Budget("curation.tokens_per_day", sum(row.tokens for row in spent), self.tokens_per_day)
        for group, limit in self.groups.items():
            used = sum(row.tokens for row in spent if row.group == group)
            yield Budget(f"curation.groups.{group}", used, limit)
        for kind, limit in self.kinds.items():
            used = sum(row.tokens for row in spent if row.kind == kind)
            yield Budget(f"curation.kinds.{kind}", used, limit)

    def refusal(self, spent: Sequence[Spent], booked: Spent) -> str | None:
        """Return why a question must not be asked now, which budget says so and when it is free again; None: it may.

        Args:
            spent: of the day of `booked`, which is not among it.
        """
        mine = Budgets(
            self.tokens_per_day,
            {name: limit for name, limit in self.groups.items() if name == booked.group},
            {name: limit for name, limit in self.kinds.items() if name == booked.kind},
        )
        for setting, used, limit in mine.used(spent):
            if booked.tokens > limit:
                return f"this needs up to {booked.tokens} tokens, and {setting} is {limit}: it waits until that is more"
            if used + booked.tokens > limit:
                tomorrow = date.fromisoformat(booked.day) + timedelta(days=1)
                return (
                    f"{used} tokens were used today, this needs up to {booked.tokens}, and {setting} is {limit}: "
                    f"it waits until {tomorrow} 00:00 UTC"
                )
        return None
