"""The dates a question says, as spans of time. Pure.

`last Friday`, `in May`, `on 7 May 2023`, `two weeks ago`, `2023-05-07`, `5月7日`, `letzte Woche`, `la semana pasada`,
`il y a deux jours`, `в прошлую пятницу`.
A date without a year means that day of every year.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from honeybadger_host.search.language.eastern_dates import days_meant, in_digits
from honeybadger_host.search.language.lexicon import COUNTS, DAYS_BACK, MONTHS, NUMBERS, UNITS, WEEKDAYS


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


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_MONTH: Final = _either(MONTHS)
_WEEKDAY: Final = _either(WEEKDAYS)
_COUNT: Final = r"(?:\d{1,3}|couple[ ]of|" + _either({**COUNTS, **NUMBERS}) + ")"
_UNIT: Final = _either(UNITS)
_LAST: Final = (
    r"last|past|previous|(?:letzt|vorig|vergangen)e[nsrm]?|derni[eè]re?s?|vorige|afgelopen|förra|"
    r"прошл(?:ый|ого|ом|ая|ую|ой|ое|ые|ых)|zeszł(?:y|ym|ą|ej|ego)|ostatni(?:ą|ej|m|ego)?"
)
_PASSED: Final = r"pasad[oa]s?|passad[oa]s?|derni[eè]re?s?|passée?s?|scors[oaie]"
_THIS: Final = r"this|diese[nsrm]?|cet|cette|ce|est[ea]|quest[oa]|deze|dit|эт(?:ой|от|ом|у)|t(?:ym|en|ego)"
_WEEKEND: Final = r"weekend|wochenende|week-end|fin[ ]de[ ]semana|fim[ ]de[ ]semana|fine[ ]settimana|выходные|выходных"
_PREPOSITION: Final = (
    r"in|of|since|until|during|early|late|mid|last|this|by|im|seit|bis|ende|anfang|mitte|en|de|em|à|au|fin|début|mi|"
    r"depuis|a|nel|da|do|sinds|sedan|в|с|до|w|od"
)
_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = r"(?:0?[1-9]|[12]\d|3[01])"
_PATTERN: Final = re.compile(
    rf"""
    (?:(?<![^\W\d_])|(?=\d))(?:  # not within a word: that is most of a text
    (?P<iso>\b(?P<iy>{_YEAR})[-/.](?P<im>0?[1-9]|1[0-2])(?:[-/.](?P<id>{_DAY}))?\b)
    |(?P<cjk>(?:(?P<cy>{_YEAR})[ ]?[年년][ ]?)?(?<!\d)(?P<cm>1[0-2]|0?[1-9])[月월](?:[ ]?(?P<cd>{_DAY})[日号號일])?)
    |(?P<cjkyear>(?P<cyo>{_YEAR})[ ]?[年년])
    |(?P<numeric>\b(?P<nd>{_DAY})\.(?P<nm>0?[1-9]|1[0-2])\.(?P<ny>{_YEAR})?(?!\d))
    |(?P<dmy>\b(?P<dd>{_DAY})(?:st|nd|rd|th|er|\.)?[ ](?:of[ ]|de[ ])?(?P<dm>{_MONTH})\b\.?,?
        (?:[ ](?:of[ ]|de[ ]|del[ ])?(?P<dy>{_YEAR})\b)?)
    |(?P<mdy>\b(?P<mm>{_MONTH})\b\.?[ ](?:the[ ])?(?P<md>{_DAY})(?:st|nd|rd|th)?\b(?![ ]?:)
        (?:,?[ ](?P<my>{_YEAR})\b)?)
    |(?P<month>\b(?:(?P<prep>{_PREPOSITION})[ ])?
        (?P<om>{_MONTH})\b\.?(?:,?[ ](?:of[ ]|de[ ]|del[ ])?(?P<oy>{_YEAR})\b)?)
    |(?P<us>\b(?P<ua>\d{{1,2}})/(?P<ub>\d{{1,2}})/(?P<uy>{_YEAR})\b)
    |(?P<ago>\b(?P<an>{_COUNT})[ ](?P<au>{_UNIT})[ ](?:ago|fa|geleden|назад|temu|atrás|sedan|önce)\b
        |\b(?:vor|il[ ]y[ ]a|hace|há|för)[ ](?P<gn>{_COUNT})[ ](?P<gu>{_UNIT})\b
        |\b(?P<ru>{_UNIT})[ ](?:назад|temu)\b)
    |(?P<past>\b(?:{_LAST})[ ](?P<pn>{_COUNT}\b)?[ ]?(?P<pu>{_UNIT})\b
        |\b(?:(?P<qn>{_COUNT})[ ])?(?P<qu>{_UNIT})[ ](?:{_PASSED})\b)
    |(?P<weekend>\b(?:{_LAST}|{_THIS})[ ](?:{_WEEKEND})\b|\b(?:{_WEEKEND})[ ](?:{_PASSED})\b)
    |(?P<this>\b(?:{_THIS})[ ](?P<tu>{_UNIT})\b)
    |(?P<weekday>\b(?:(?:{_LAST}|on|am|this)[ ])?(?P<wd>{_WEEKDAY})\b)
    |(?P<near>\b(?:{_either(DAYS_BACK)}|last[ ]night)\b)
    |(?P<year>\b(?:in|of|since|during|im[ ]jahr|en|em|nel|в|w|seit|depuis|desde)[ ](?P<yy>{_YEAR})\b)
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORDLIKE: Final = frozenset(
    ("may", "march", "mar", "mars", "mai", "maj", "jun", "jan", "dec", "sept", "maart", "set", "mei", "maja")
)
"""Month names that mean something else as often: they need a preposition, a day or a year."""


def dates_said(text: str, now: datetime | None) -> tuple[Said, ...]:
    """Return every date in a question, in order of appearance.

    Args:
        now: aware; what `yesterday` is counted from. Without it only absolute dates are understood.
    """
    text = in_digits(" ".join(unicodedata.normalize("NFKC", text).split()))
    if not _TELLING.isdisjoint(_WORD.findall(text.casefold())) or any(letter.isdigit() for letter in text):
        return tuple(_said(text, now))
    return () if now is None or text.isascii() else tuple(_eastern(text, now))


_WORD: Final = re.compile(r"[^\W\d_]+")
_TELLING: Final = frozenset(
    part
    for word in (*MONTHS, *WEEKDAYS, *DAYS_BACK, *UNITS, "weekend", "wochenende", "week-end", "semana", "settimana")
    for part in _WORD.findall(word)
) | {"night", "выходные", "выходных"}
"""One of these, or a digit, stands in every date but those of Chinese, Japanese and Korean."""


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
    if now is not None and not text.isascii():
        yield from _eastern(text, now)


def _eastern(text: str, now: datetime) -> Iterator[Said]:
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for words, first, days in days_meant(text, today):
        yield _days(words, first, days)


def _read(match: re.Match[str], now: datetime | None) -> Said | None:
    words = match.group().strip()
    part = match.groupdict()
    kind = match.lastgroup and next(
        name
        for name in ("iso", "cjk", "cjkyear", "numeric", "dmy", "mdy", "month", "us", "ago", "past", "weekend", "this",
                     "weekday", "near", "year")
        if part[name] is not None
    )  # fmt: skip
    match kind:
        case "iso":
            return _date(words, part["iy"], int(part["im"]), part["id"])
        case "cjk":
            return _date(words, part["cy"], int(part["cm"]), part["cd"])
        case "cjkyear":
            return _date(words, part["cyo"], None, None)
        case "numeric":
            return _date(words, part["ny"], int(part["nm"]), part["nd"])
        case "dmy":
            return _date(words, part["dy"], MONTHS[part["dm"].casefold()], part["dd"])
        case "mdy":
            return _date(words, part["my"], MONTHS[part["mm"].casefold()], part["md"])
        case "month":
            name = part["om"].casefold()
            if name in _WORDLIKE and part["oy"] is None and part["prep"] is None:
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
    if kind == "ago":
        count = _count(part["an"] or part["gn"] or "")
        unit = UNITS[(part["au"] or part["gu"] or part["ru"] or "").casefold()]
        width = {1: 0, 7: 3, 30: 15, 365: 182}[unit]
        middle = today - timedelta(days=min(count * unit, 36_500))
        return _days(words, middle - timedelta(days=width), 2 * width + 1)
    if kind == "past":
        unit = UNITS[(part["pu"] or part["qu"] or "").casefold()]
        written = part["pn"] or part["qn"]
        count = _count(written) if written else 1
        if written is None and unit == 30:
            end = today.replace(day=1)
            start = (end - timedelta(days=1)).replace(day=1)
            return Said(words, Span(start.timestamp(), end.timestamp()))
        if written is None and unit == 365:
            return _date(words, str(today.year - 1), None, None)
        if written is None and unit == 7:
            return _days(words, today - timedelta(days=today.weekday() + 7), 7)
        return _days(words, today - timedelta(days=min(count * unit, 36_500)), min(count * unit, 36_500) + 1)
    if kind == "weekend":
        return _days(words, today - timedelta(days=today.weekday() + 2), 2)
    if kind == "this":
        unit = UNITS[(part["tu"] or "").casefold()]
        start = {7: today - timedelta(days=today.weekday()), 30: today.replace(day=1)}.get(
            unit, today.replace(month=1, day=1)
        )
        return Said(words, Span(start.timestamp(), (today + timedelta(days=1)).timestamp()))
    if kind == "weekday":
        back = (today.weekday() - WEEKDAYS[(part["wd"] or "").casefold()]) % 7 or 7
        return _days(words, today - timedelta(days=back), 1)
    if kind == "near":
        return _days(words, today - timedelta(days=DAYS_BACK.get(lowered, 1)), 1)
    return None


def _count(word: str) -> int:
    word = word.casefold()
    if word.isdigit():
        return int(word)
    return COUNTS.get(word.split()[0]) or int(NUMBERS.get(word, "1")) if word else 1


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
