"""The dates a question says, as spans of time. Pure.

`last Friday`, `in May`, `on 7 May 2023`, `two weeks ago`, `2023-05-07`, `5月7日`, `letzte Woche`.
A date without a year means that day of every year.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from honeybadger_host.memory.words import MONTHS, NUMBERS, WEEKDAYS


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in seconds of the epoch, UTC; `end` is not part of it."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Said:
    """A date as a question says it.

    Args:
        words: as written.
        month, day: without a year; None where not said.
        span: where the year is known.
    """

    words: str
    span: Span | None = None
    month: int | None = None
    day: int | None = None

    def spans(self, first_year: int, last_year: int) -> list[Span]:
        """Return the stretches it can mean between two years."""
        if self.span is not None:
            return [self.span]
        if self.month is None:
            return []
        years = range(first_year, last_year + 1)
        return [span for year in years if (span := _span(year, self.month, self.day)) is not None]


_MONTH: Final = "|".join(sorted(map(re.escape, MONTHS), key=len, reverse=True))
_WEEKDAY: Final = "|".join(WEEKDAYS)
_COUNT: Final = r"(?:\d{1,3}|an?|one|" + "|".join(NUMBERS) + "|couple of|few|ein(?:er|em)?|zwei|drei)"
_UNIT_DAYS: Final = {
    "day": 1, "days": 1, "week": 7, "weeks": 7, "month": 30, "months": 30, "year": 365, "years": 365,
    "tag": 1, "tage": 1, "tagen": 1, "woche": 7, "wochen": 7, "monat": 30, "monate": 30, "monaten": 30,
    "jahr": 365, "jahre": 365, "jahren": 365, "天": 1, "日": 1, "周": 7, "週": 7, "星期": 7, "个月": 30, "個月": 30,
    "月": 30, "年": 365,
}  # fmt: skip
_UNIT: Final = "|".join(sorted((unit for unit in _UNIT_DAYS if unit.isascii()), key=len, reverse=True))
_LAST: Final = "last|past|previous|(?:letzte|vorige|vergangene)[nsrm]?|pasad[oa]|dernière?|passée?"
_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = r"(?:0?[1-9]|[12]\d|3[01])"
_PATTERN: Final = re.compile(
    rf"""
    (?P<iso>\b(?P<iy>{_YEAR})[-/.](?P<im>0?[1-9]|1[0-2])(?:[-/.](?P<id>{_DAY}))?\b)
    |(?P<cjk>(?:(?P<cy>{_YEAR})年)?(?P<cm>1[0-2]|0?[1-9])月(?:(?P<cd>{_DAY})[日号號])?)
    |(?P<cjkyear>(?P<cyo>{_YEAR})年)
    |(?P<dmy>\b(?P<dd>{_DAY})(?:st|nd|rd|th|\.)?\s+(?:of\s+|de\s+)?(?P<dm>{_MONTH})\b\.?,?
        (?:\s+(?:of\s+|de\s+)?(?P<dy>{_YEAR})\b)?)
    |(?P<mdy>\b(?P<mm>{_MONTH})\b\.?\s+(?:the\s+)?(?P<md>{_DAY})(?:st|nd|rd|th)?\b(?!\s*:)
        (?:,?\s+(?P<my>{_YEAR})\b)?)
    |(?P<month>\b(?:(?P<prep>in|of|since|until|during|early|late|mid|last|this|by|im|seit|ende|anfang|en|de|em|depuis)\s+)?
        (?P<om>{_MONTH})\b\.?(?:,?\s+(?:of\s+|de\s+)?(?P<oy>{_YEAR})\b)?)
    |(?P<us>\b(?P<ua>\d{{1,2}})/(?P<ub>\d{{1,2}})/(?P<uy>{_YEAR})\b)
    |(?P<ago>\b(?P<an>{_COUNT})\s+(?P<au>{_UNIT})\s+ago\b|\bvor\s+(?P<gn>{_COUNT})\s+(?P<gu>{_UNIT})\b)
    |(?P<cago>(?P<cn>(?<!\d)\d{{1,4}}|[一二两三四五六七八九十])(?P<cu>天|日|周|週|星期|个月|個月|年)前)
    |(?P<past>\b(?:{_LAST})\s+(?:(?P<pn>{_COUNT})\s*)?(?P<pu>{_UNIT})\b)
    |(?P<weekend>\b(?:{_LAST}|this)\s+(?:weekend|wochenende)\b)
    |(?P<this>\b(?:this|diese[nsrm]?)\s+(?P<tu>week|month|year|woche|monat|jahr)\b)
    |(?P<weekday>\b(?:(?P<wl>{_LAST}|on|am|this)\s+)?(?P<wd>{_WEEKDAY})\b)
    |(?P<near>\b(?:yesterday|gestern|hier|ayer|today|heute|hoy|aujourd'hui|tonight|last\s+night)\b|昨天|昨日|今天|今日|前天)
    |(?P<clast>上(?:个|個)?(?P<clu>周|週|星期|礼拜|月)(?P<cwd>[一二三四五六日天])?|去年|今年|先週|先月)
    |(?P<year>(?:\b(?:in|of|since|during|im\s+jahr|en|em)\s+)(?P<yy>{_YEAR})\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORDLIKE: Final = frozenset(("may", "march", "mar", "mars", "mai", "jun", "jan", "dec", "sept", "maart", "set", "mei"))
"""Month names that mean something else as often: they need a preposition, a day or a year."""
_CJK_DIGITS: Final = {digit: value for value, digit in enumerate("一二三四五六七八九十", 1)} | {
    "两": 2,
    "日": 7,
    "天": 7,
}


def dates_said(text: str, now: datetime | None) -> tuple[Said, ...]:
    """Return every date in a question, in order of appearance.

    Args:
        now: aware; what `yesterday` is counted from. Without it only absolute dates are understood.
    """
    if not any(letter.isdigit() for letter in text) and not _MAYBE.search(text):
        return ()
    return tuple(_said(unicodedata.normalize("NFKC", text), now))


_MAYBE: Final = re.compile(
    rf"{_MONTH}|{_WEEKDAY}|ago|{_LAST}|this|diese|vor|yester|today|tonight|gestern|heute|hier|ayer|hoy|aujourd|[昨今前上去先]",
    re.IGNORECASE,
)


def _said(text: str, now: datetime | None) -> Iterator[Said]:
    """Yield the dates of a text; `the weekend before 10 April 2026` is counted from that day."""
    matches = list(_PATTERN.finditer(text))
    absolute = [said.span for match in matches if (said := _read(match, None)) is not None and said.span is not None]
    if absolute:
        now = datetime.fromtimestamp(absolute[0].start, UTC)
    for match in matches:
        found = _read(match, now)
        if found is not None:
            yield found


def _read(match: re.Match[str], now: datetime | None) -> Said | None:
    words = match.group().strip()
    part = match.groupdict()
    kind = match.lastgroup and next(
        name
        for name in ("iso", "cjk", "cjkyear", "dmy", "mdy", "month", "us", "ago", "cago", "past", "weekend", "this",
                     "weekday", "near", "clast", "year")
        if part[name] is not None
    )  # fmt: skip
    match kind:
        case "iso":
            return _date(words, part["iy"], int(part["im"]), part["id"])
        case "cjk":
            return _date(words, part["cy"], int(part["cm"]), part["cd"])
        case "cjkyear":
            return _date(words, part["cyo"], None, None)
        case "dmy":
            return _date(words, part["dy"], MONTHS[part["dm"].casefold()], part["dd"])
        case "mdy":
            return _date(words, part["my"], MONTHS[part["mm"].casefold()], part["md"])
        case "month":
            name = part["om"].casefold()
            if name in _WORDLIKE and part["oy"] is None and (part["prep"] is None or not part["om"][0].isupper()):
                return None
            return _date(words, part["oy"], MONTHS[name], None)
        case "us":
            first, second = int(part["ua"]), int(part["ub"])
            month, day = (first, second) if first <= 12 else (second, first)
            return _date(words, part["uy"], month, str(day)) if 1 <= month <= 12 else None
        case "year":
            return _date(words, part["yy"], None, None)
    return None if now is None else _relative(kind or "", words, part, now.astimezone(UTC))


def _relative(kind: str, words: str, part: dict[str, str | None], now: datetime) -> Said | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    lowered = words.casefold()
    if kind in ("ago", "cago"):
        count = _count(part["an"] or part["gn"] or part["cn"] or "")
        unit = _UNIT_DAYS[(part["au"] or part["gu"] or part["cu"] or "").casefold()]
        width = {1: 0, 7: 3, 30: 15, 365: 182}[unit]
        middle = today - timedelta(days=min(count * unit, 36_500))
        return _days(words, middle - timedelta(days=width), 2 * width + 1)
    if kind == "past":
        unit = _UNIT_DAYS[(part["pu"] or "").casefold()]
        count = _count(part["pn"]) if part["pn"] else 1
        if part["pn"] is None and unit == 30:
            end = today.replace(day=1)
            start = (end - timedelta(days=1)).replace(day=1)
            return Said(words, Span(start.timestamp(), end.timestamp()))
        if part["pn"] is None and unit == 365:
            return _date(words, str(today.year - 1), None, None)
        if part["pn"] is None and unit == 7:
            return _days(words, today - timedelta(days=today.weekday() + 7), 7)
        return _days(words, today - timedelta(days=min(count * unit, 36_500)), min(count * unit, 36_500) + 1)
    if kind == "weekend":
        return _days(words, today - timedelta(days=today.weekday() + 2), 2)
    if kind == "this":
        unit = _UNIT_DAYS[(part["tu"] or "").casefold()]
        start = {7: today - timedelta(days=today.weekday()), 30: today.replace(day=1)}.get(
            unit, today.replace(month=1, day=1)
        )
        return Said(words, Span(start.timestamp(), (today + timedelta(days=1)).timestamp()))
    if kind == "weekday":
        back = (today.weekday() - WEEKDAYS[(part["wd"] or "").casefold()]) % 7 or 7
        return _days(words, today - timedelta(days=back), 1)
    if kind == "near":
        back = 0 if lowered.startswith(("today", "heute", "hoy", "aujourd", "tonight", "今")) else 1
        return _days(words, today - timedelta(days=2 if lowered == "前天" else back), 1)
    if kind == "clast":
        return _chinese(words, part, today)
    return None


def _chinese(words: str, part: dict[str, str | None], today: datetime) -> Said | None:
    if words == "去年":
        return _date(words, str(today.year - 1), None, None)
    if words == "今年":
        return _date(words, str(today.year), None, None)
    if words == "先月" or part["clu"] == "月":
        end = today.replace(day=1)
        return Said(words, Span((end - timedelta(days=1)).replace(day=1).timestamp(), end.timestamp()))
    monday = today - timedelta(days=today.weekday() + 7)
    if part["cwd"]:
        return _days(words, monday + timedelta(days=_CJK_DIGITS[part["cwd"]] - 1), 1)
    return _days(words, monday, 7)


def _count(word: str) -> int:
    word = word.casefold()
    if word.isdigit():
        return int(word)
    known = {"couple of": 2, "few": 3, "zwei": 2, "drei": 3}
    return known.get(word) or int(NUMBERS.get(word, "0")) or _CJK_DIGITS.get(word, 1)


def _date(words: str, year: str | None, month: int | None, day: str | None) -> Said | None:
    if year is None:
        return Said(words, None, month, int(day) if day else None)
    span = _span(int(year), month, int(day) if day else None)
    return None if span is None else Said(words, span)


def _span(year: int, month: int | None, day: int | None) -> Span | None:
    """Return a year, a month or a day; None for one that no calendar has."""
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


def _days(words: str, start: datetime, days: int) -> Said:
    return Said(words, Span(start.timestamp(), (start + timedelta(days=days)).timestamp()))
