"""The dates in a question, as spans of time. Pure.

`2023-05-07`, `7 May 2023`, `May 7`, `in May`, `in 2023`; `yesterday`, `last week`, `last Friday`. A date without a year
means that day of every year. Other ways to write a date found nothing more in four kinds of conversations
(docs/decisions/017-recall.md).
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

# Seconds since the epoch, UTC; the end is not part of it.
Span: TypeAlias = tuple[float, float]

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS)
_YEAR = r"(?:19|20)\d\d"
_PREPOSITION = "(?:in|of|since|until|during|early|late|mid|last|this|by)"  # `may` and `march` are words, too
_PATTERN = re.compile(
    rf"""\b(?:
    (?P<iso>(?P<iy>{_YEAR})-(?P<im>0?[1-9]|1[0-2])(?:-(?P<id>\d\d?))?)
    |(?P<dmy>(?P<dd>\d\d?)(?:st|nd|rd|th)?[ ](?:of[ ])?(?P<dm>{_MONTH})\b,?(?:[ ](?P<dy>{_YEAR}))?)
    |(?P<mdy>(?P<mm>{_MONTH})\b[ ](?:the[ ])?(?P<md>\d\d?)(?:st|nd|rd|th)?\b(?:,?[ ](?P<my>{_YEAR}))?)
    |(?P<month>(?:{_PREPOSITION}[ ])?(?P<om>{_MONTH})\b,?[ ](?P<oy>{_YEAR}))
    |(?P<month_alone>{_PREPOSITION}[ ](?P<am>{_MONTH}))
    |(?P<year>(?:in|of|since|during)[ ](?P<yy>{_YEAR}))
    |(?P<last>last[ ](?P<unit>week|month|year))
    |(?P<near>today|yesterday|last[ ]night)
    |(?P<weekday>{"|".join(_WEEKDAYS)})
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)


def dates_said(text: str, now: datetime | None, years: Sequence[int] = ()) -> list[Span]:
    """Return the dates in a question, in order of appearance.

    Args:
        now: aware; `yesterday` is counted from it. Without it only absolute dates are understood.
        years: those that a date without a year may be of.
    """
    spans: list[Span] = []
    for match in _PATTERN.finditer(" ".join(text.split())):
        part = match.groupdict()
        year = part["iy"] or part["dy"] or part["my"] or part["oy"] or part["yy"]
        named, day = part["dm"] or part["mm"] or part["om"] or part["am"], part["id"] or part["dd"] or part["md"]
        month = int(part["im"]) if part["im"] else None
        if named:
            month = 1 + [each[:3] for each in _MONTHS].index(named[:3].casefold())
        if year or month:
            found = [_span(each, month, int(day) if day else None) for each in ([int(year)] if year else years)]
            spans += [span for span in found if span is not None]
        elif now is not None:
            spans.append(_relative(part, now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)))
    return spans


def _relative(part: dict[str, str | None], today: datetime) -> Span:
    first = today.replace(day=1)
    match (part["unit"] or "").casefold():
        case "week":
            return _days(today - timedelta(days=today.weekday() + 7), 7)
        case "month":
            return (first - timedelta(days=1)).replace(day=1).timestamp(), first.timestamp()
        case "year":
            return first.replace(today.year - 1, 1).timestamp(), first.replace(month=1).timestamp()
    if part["weekday"]:
        back = (today.weekday() - _WEEKDAYS.index(part["weekday"].casefold())) % 7 or 7
        return _days(today - timedelta(days=back), 1)
    return _days(today - timedelta(days=(part["near"] or "").casefold() != "today"), 1)


def _span(year: int, month: int | None, day: int | None) -> Span | None:
    """Return the span of a year, a month or a day; None for a date that does not exist."""
    try:
        start = datetime(year, month or 1, day or 1, tzinfo=UTC)
    except ValueError:
        return None
    if day is not None:
        return _days(start, 1)
    following = (year + month // 12, month % 12 + 1) if month else (year + 1, 1)
    return start.timestamp(), datetime(*following, 1, tzinfo=UTC).timestamp()


def _days(start: datetime, days: int) -> Span:
    return start.timestamp(), (start + timedelta(days=days)).timestamp()
