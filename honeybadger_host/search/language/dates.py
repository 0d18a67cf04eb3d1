"""The dates in a question, as spans of time. Pure.

In English (`last Friday`, `in May`, `on 7 May 2023`, `two weeks ago`) and in digits (`2023-05-07`, `7.5.2023`,
`5/7/2023`, `5月7日`). A date without a year means that day of every year.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, in seconds since the epoch, UTC; `end` is not part of it."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Said:
    """A date in a question.

    Args:
        month, day: of a date without a year; None where not given.
        span: when the year is known.
    """

    span: Span | None = None
    month: int | None = None
    day: int | None = None

    def spans(self, first_year: int, last_year: int) -> list[Span]:
        """Return the spans it can mean between two years."""
        if self.span is not None:
            return [self.span]
        if self.month is None:
            return []
        years = range(first_year, last_year + 1)
        return [span for year in years if (span := _span(year, self.month, self.day)) is not None]


def _numbered(names: str, first: int) -> dict[str, int]:
    """Return name -> number; `|` separates names of one number, `_` stands for a space in a name."""
    return {name: number for number, both in enumerate(names.split(), first) for name in both.split("|")}


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True)).replace("_", "[ ]")


_MONTHS: Final = _numbered(
    "january|jan february|feb march|mar april|apr may june|jun july|jul august|aug september|sep|sept october|oct "
    "november|nov december|dec",
    1,
)
_WEEKDAYS: Final = _numbered("monday tuesday wednesday thursday friday saturday sunday", 0)
_DAYS_BACK: Final = {"today": 0, "tonight": 0, "yesterday": 1, "last_night": 1}
_UNITS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_CENTURY: Final = 36_500
_COUNTS: Final = _numbered("a|an|one two|couple_of three|few four five six seven eight nine ten eleven twelve", 1)
_WORDLIKE: Final = frozenset(("may", "march", "mar", "jun", "jan", "dec", "sept"))
"""Month names that often mean something else: they need a preposition, a day or a year."""

_MONTH, _COUNT, _UNIT = _either(_MONTHS), rf"(?:\d{{1,3}}|{_either(_COUNTS)})", rf"(?:{_either(_UNITS)})s?"
_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = r"(?:0?[1-9]|[12]\d|3[01])"
_NUMBER: Final = r"(?:0?[1-9]|1[0-2])"
_PREPOSITION: Final = "in|of|since|until|during|early|late|mid|last|this|by"
_PATTERN: Final = re.compile(
    rf"""
    (?:(?<![^\W\d_])|(?=\d))(?:  # not within a word
    (?P<iso>\b(?P<iy>{_YEAR})[-/.](?P<im>{_NUMBER})(?:[-/.](?P<id>{_DAY}))?\b)
    |(?P<cjk>(?:(?P<cy>{_YEAR})[ ]?[年년][ ]?)?(?<!\d)(?P<cm>{_NUMBER})[月월](?:[ ]?(?P<cd>{_DAY})[日号號일])?)
    |(?P<dotted>\b(?P<nd>{_DAY})\.(?P<nm>{_NUMBER})\.(?P<ny>{_YEAR})?(?!\d))
    |(?P<slashed>\b(?P<ua>\d{{1,2}})/(?P<ub>\d{{1,2}})/(?P<uy>{_YEAR})\b)
    |(?P<dmy>\b(?P<dd>{_DAY})(?:st|nd|rd|th|\.)?[ ](?:of[ ])?(?P<dm>{_MONTH})\b\.?,?(?:[ ](?P<dy>{_YEAR})\b)?)
    |(?P<mdy>\b(?P<mm>{_MONTH})\b\.?[ ](?:the[ ])?(?P<md>{_DAY})(?:st|nd|rd|th)?\b(?![ ]?:)(?:,?[ ](?P<my>{_YEAR})\b)?)
    |(?P<month>\b(?:(?P<prep>{_PREPOSITION})[ ])?(?P<om>{_MONTH})\b\.?(?:,?[ ](?:of[ ])?(?P<oy>{_YEAR})\b)?)
    |(?P<ago>\b(?P<an>{_COUNT})[ ](?P<au>{_UNIT})[ ]ago\b)
    |(?P<past>\b(?:last|past|previous)[ ](?:(?P<pn>{_COUNT})[ ])?(?P<pu>{_UNIT})\b)
    |(?P<weekend>\b(?:last|past|this)[ ]weekend\b)
    |(?P<this>\bthis[ ](?P<tu>{_UNIT})\b)
    |(?P<weekday>\b(?P<wd>{_either(_WEEKDAYS)})\b)
    |(?P<near>\b(?:{_either(_DAYS_BACK)})\b)
    |(?P<year>\b(?:in|of|since|during)[ ](?P<yy>{_YEAR})\b)
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORD: Final = re.compile(r"[a-z]+")
_TELLING: Final = frozenset(
    (
        *_MONTHS,
        *_WEEKDAYS,
        *_UNITS,
        *(f"{unit}s" for unit in _UNITS),
        "today",
        "tonight",
        "yesterday",
        "night",
        "weekend",
    )
)
"""Every date has one of these, or a digit."""


def dates_said(text: str, now: datetime | None) -> tuple[Said, ...]:
    """Return every date in a question, in order of appearance.

    `the weekend before 10 April 2026` is counted from that day.

    Args:
        now: aware; `yesterday` is counted from it. Without it only absolute dates are understood.
    """
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    if _TELLING.isdisjoint(_WORD.findall(text.casefold())) and not any(letter.isdigit() for letter in text):
        return ()
    return tuple(_said(text, now))


def _said(text: str, now: datetime | None) -> Iterator[Said]:
    matches = list(_PATTERN.finditer(text))
    read = [_absolute(match) for match in matches]
    known = next((said.span for said in read if said is not None and said.span is not None), None)
    if known is not None:
        now = datetime.fromtimestamp(known.start, UTC)
    for match, said in zip(matches, read, strict=True):
        if said is None and now is not None:
            said = _relative(match, now.astimezone(UTC))
        if said is not None:
            yield said


def _absolute(match: re.Match[str]) -> Said | None:
    part = match.groupdict()
    match _kind(part):
        case "iso":
            return _date(part["iy"], int(part["im"]), part["id"])
        case "cjk":
            return _date(part["cy"], int(part["cm"]), part["cd"])
        case "dotted":
            return _date(part["ny"], int(part["nm"]), part["nd"])
        case "slashed":
            first, second = int(part["ua"]), int(part["ub"])
            month, day = (first, second) if first <= 12 else (second, first)
            return _date(part["uy"], month, str(day)) if 1 <= month <= 12 else None
        case "dmy":
            return _date(part["dy"], _MONTHS[part["dm"].casefold()], part["dd"])
        case "mdy":
            return _date(part["my"], _MONTHS[part["mm"].casefold()], part["md"])
        case "month":
            name = part["om"].casefold()
            if name in _WORDLIKE and part["oy"] is None and part["prep"] is None:
                return None
            return _date(part["oy"], _MONTHS[name], None)
        case "year":
            return _date(part["yy"], None, None)
    return None


def _relative(match: re.Match[str], now: datetime) -> Said | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    part = match.groupdict()
    match _kind(part):
        case "ago":
            unit = _unit(part["au"])
            width = {1: 0, 7: 3, 30: 15, 365: 182}[unit]
            return _days(today - timedelta(days=min(_count(part["an"]) * unit, _CENTURY) + width), 2 * width + 1)
        case "past" if part["pn"]:
            days = min(_count(part["pn"]) * _unit(part["pu"]), _CENTURY)
            return _days(today - timedelta(days=days), days + 1)
        case "past":
            return _last(_unit(part["pu"]), today)
        case "this":
            first = {7: today - timedelta(days=today.weekday()), 30: today.replace(day=1)}
            start = first.get(_unit(part["tu"]), today.replace(month=1, day=1))
            return _days(start, (today - start).days + 1)
        case "weekend":
            return _days(today - timedelta(days=today.weekday() + 2), 2)
        case "weekday":
            back = (today.weekday() - _WEEKDAYS[part["wd"].casefold()]) % 7 or 7
            return _days(today - timedelta(days=back), 1)
        case "near":
            return _days(today - timedelta(days=_DAYS_BACK[part["near"].casefold().replace(" ", "_")]), 1)
    return None


def _kind(part: dict[str, str]) -> str:
    return next((name for name, text in part.items() if len(name) > 2 and name != "prep" and text is not None), "")


def _last(unit: int, today: datetime) -> Said | None:
    """Return the day, week, month or year before this one."""
    before = today.replace(day=1) - timedelta(days=1)
    match unit:
        case 7:
            return _days(today - timedelta(days=today.weekday() + 7), 7)
        case 30:
            return _date(str(before.year), before.month, None)
        case 365:
            return _date(str(today.year - 1), None, None)
    return _days(today - timedelta(days=1), 2)


def _unit(word: str) -> int:
    return _UNITS[word.casefold().removesuffix("s")]


def _count(word: str) -> int:
    return int(word) if word.isdigit() else _COUNTS[word.casefold().replace(" ", "_")]


def _date(year: str | None, month: int | None, day: str | None) -> Said | None:
    if year is None:
        return Said(None, month, int(day) if day else None)
    span = _span(int(year), month, int(day) if day else None)
    return None if span is None else Said(span)


def _span(year: int, month: int | None, day: int | None) -> Span | None:
    """Return the span of a year, a month or a day; None for a date that does not exist."""
    try:
        start = datetime(year, month or 1, day or 1, tzinfo=UTC)
    except ValueError:
        return None
    if day is not None:
        end = start + timedelta(days=1)
    elif month is not None:
        end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    else:
        end = datetime(year + 1, 1, 1, tzinfo=UTC)
    return Span(start.timestamp(), end.timestamp())


def _days(start: datetime, days: int) -> Said:
    return Said(Span(start.timestamp(), (start + timedelta(days=days)).timestamp()))
