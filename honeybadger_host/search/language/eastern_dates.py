"""Dates as Chinese, Japanese and Korean say them, counted from a day. Pure.

`上周五`, `三天前`, `这个月`, `先週の金曜日`, `一昨日`, `지난주 금요일`, `3일 전`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

_DIGITS: Final = {digit: value for value, digit in enumerate("一二三四五六七八九", 1)} | {"两": 2, "兩": 2}
_NUMERAL: Final = re.compile(
    "(?<![一二三四五六七八九十百千])(?:[一二三四五六七八九]?十[一二三四五六七八九]?|[一二三四五六七八九两兩])"
    "(?=[天日号號月年周週星个個か])"
)
_WEEKDAYS: Final = {
    name: number
    for number, names in enumerate(("一月월", "二火화", "三水수", "四木목", "五金금", "六土토", "日天일"))
    for name in names
}
_DAYS_BACK: Final = {
    "大前天": 3, "前天": 2, "昨天": 1, "昨日": 1, "昨晚": 1, "昨夜": 1, "今天": 0, "今日": 0, "今晚": 0,
    "一昨日": 2, "おととい": 2, "きのう": 1, "ゆうべ": 1, "きょう": 0, "그저께": 2, "엊그제": 2, "어제": 1,
    "어젯밤": 1, "오늘": 0,
}  # fmt: skip
_UNIT_DAYS: Final = {
    "天": 1, "日": 1, "일": 1, "周": 7, "週": 7, "星期": 7, "礼拜": 7, "週間": 7, "주": 7, "주일": 7,
    "月": 30, "か月": 30, "ヶ月": 30, "개월": 30, "달": 30, "年": 365, "년": 365,
}  # fmt: skip


def _either(words: dict[str, int]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_PATTERN: Final = re.compile(
    rf"""
    (?P<ago>(?P<count>\d{{1,3}})[ ]?(?:个|個)?(?P<unit>{_either(_UNIT_DAYS)})[ ]?(?:以)?(?:前|전))
    |(?P<weekday>(?:上上?(?:个|個)?(?:周|週|星期|礼拜|禮拜)|先週の?|지난[ ]?주[ ]?)
        (?P<day>[一二三四五六日天末]|[月火水木金土日]曜|[월화수목금토일]요일))
    |(?P<weekend>上(?:个|個)?周末|先週末|지난[ ]?주말)
    |(?P<before>上上(?:个|個)?(?:周|週|星期|礼拜))
    |(?P<week>上(?:个|個)?(?:周|週|星期|礼拜|禮拜)|先週|지난[ ]?주)
    |(?P<thisweek>(?:这|這|本)(?:个|個)?(?:周|週|星期|礼拜)|今週|이번[ ]?주)
    |(?P<month>上(?:个|個)?月|先月|지난[ ]?달)
    |(?P<thismonth>(?:这|這|本)(?:个|個)?月|今月|이번[ ]?달)
    |(?P<year>去年|昨年|작년|지난해)
    |(?P<beforeyear>前年|재작년)
    |(?P<thisyear>今年|올해)
    |(?P<near>{_either(_DAYS_BACK)})
    """,
    re.VERBOSE,
)


def in_digits(text: str) -> str:
    """Return a text with `十月一日` as `10月1日`."""
    return _NUMERAL.sub(lambda match: str(_value(match.group())), text)


def days_meant(text: str, today: datetime) -> Iterator[tuple[str, datetime, int]]:
    """Yield what a text says: the words, the first day and how many days.

    Args:
        text: after `in_digits`.
        today: midnight.
    """
    monday = today - timedelta(days=today.weekday())
    for match in _PATTERN.finditer(text):
        words = match.group()
        match match.lastgroup and next(name for name, part in match.groupdict().items() if part is not None):
            case "ago":
                unit = _UNIT_DAYS[match["unit"]]
                width = {1: 0, 7: 3, 30: 15, 365: 182}[unit]
                middle = today - timedelta(days=min(int(match["count"]) * unit, 36_500))
                yield words, middle - timedelta(days=width), 2 * width + 1
            case "weekday":
                day = match["day"]
                if day == "末":
                    yield words, monday - timedelta(days=2), 2
                else:
                    weeks = 14 if words.startswith("上上") else 7
                    yield words, monday - timedelta(days=weeks - _WEEKDAYS[day[0]]), 1
            case "weekend":
                yield words, monday - timedelta(days=2), 2
            case "before":
                yield words, monday - timedelta(days=14), 7
            case "week":
                yield words, monday - timedelta(days=7), 7
            case "thisweek":
                yield words, monday, (today - monday).days + 1
            case "month":
                last = today.replace(day=1) - timedelta(days=1)
                yield words, last.replace(day=1), last.day
            case "thismonth":
                yield words, today.replace(day=1), today.day
            case "near":
                yield words, today - timedelta(days=_DAYS_BACK[words]), 1
            case "year" | "beforeyear" | "thisyear" as which:
                year = today.year - {"year": 1, "beforeyear": 2, "thisyear": 0}[which]
                first = today.replace(year=year, month=1, day=1)
                yield words, first, (first.replace(year=year + 1) - first).days


def _value(numeral: str) -> int:
    tens, ten, ones = numeral.rpartition("十")
    if not ten:
        return _DIGITS[numeral]
    return _DIGITS.get(tens, 1) * 10 + _DIGITS.get(ones, 0)
