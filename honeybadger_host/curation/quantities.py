"""Dates, times, amounts and numbers in a text, each in one form however it is written. Pure.

`7 May`, `May 7th` and `7. Mai` are `--05-07`; `8 pm` and `20 Uhr` are `20:00`; `8 kg` and `8 kilograms` are `8 kg`,
`$20` and `20 dollars` are `20 $`; `twelve` is `12`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from honeybadger_host.curation.ordinary import word_forms, word_set

Read: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""What is said for certain, and what somebody who says it also says: `2026-05-07` says `--05-07`."""


_MONTHS: Final = word_forms("months")
_OFTEN_OTHER: Final = word_set("months_or_words")
_WEEKDAYS: Final = word_forms("weekdays")
UNITS: Final = word_forms("units")
_CURRENCIES: Final = frozenset("$€£¥₹") | {"CHF"}
_TENS: Final = word_forms("tens")
_ONES: Final = word_forms("ones")
_WORDS: Final = {
    **_ONES,
    **_TENS,
    **word_forms("numbers"),
    **{
        f"{ten}{dash}{one}": str(int(t) + int(o))
        for ten, t in _TENS.items()
        for one, o in _ONES.items()
        for dash in "- "
    },
    **{f"{one}und{ten}": str(int(t) + int(o)) for ten, t in _TENS.items() for one, o in _ONES.items()},
}
_TIMES: Final = word_forms("times")


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_YEAR, _DAY, _NUMBERED = r"(?:1[89]|20|21)\d\d", r"(?:3[01]|[12]\d|0?[1-9])", r"(?:1[0-2]|0?[1-9])"
_MONTH: Final = _either(_MONTHS)
_PREPOSITIONS: Final = "in|im|of|since|until|during|early|late|mid|last|this|next|by|seit|bis|en|a"
_PLAIN: Final = (
    r"\d{1,3}(?:[,'’ \u202f\u00a0]\d{3})+(?!\d)(?:\.\d+)?"
    r"|\d{1,3}(?:\.\d{3})+(?:,\d+|(?=\.\d))|\d{1,3}(?:\.\d{3}){2,}|\d+(?:[.,]\d+)?"
)
_WORD_NUMBER: Final = rf"(?:{_either(_WORDS)})"
_L: Final = "0-9A-Za-z_\u00aa\u00b5\u00c0-\u024f\u0370-\u052f"
"""What continues a number or a word; in Chinese and Japanese nothing stands between them."""
_HAN: Final = "〇零一二两三四五六七八九十百千万"
_COUNTERS: Final = (
    "个個人名匹本枚台回次年月日天周週時小点點分块塊元円岁歳歲度倍公米千克斤页頁章岁楼樓层階号號杯只件份歩步%"
)
PATTERN: Final = rf"""
    (?P<iso>(?<![{_L}.])(?P<iy>{_YEAR})(?P<sep>[-/.])(?P<im>{_NUMBERED})(?P=sep)(?P<id>{_DAY})(?![\d])(?!-\w))
    |(?P<isom>(?<![{_L}.-])(?P<my>{_YEAR})-(?P<mm>0[1-9]|1[0-2])(?![{_L}-]))
    |(?P<cjk>(?:(?P<cy>{_YEAR})\s?[年년]\s?)?(?<!\d)(?P<cm>{_NUMBERED})[月월](?:\s?(?P<cd>{_DAY})[日號号일])?)
    |(?P<dot>(?<![{_L}.])(?P<dd>{_DAY})\.\s?(?P<dm>{_NUMBERED})\.\s?(?P<dy>{_YEAR})(?!\d)
        |\b(?:am|vom|zum|bis|ab|den|dem|seit|der|on)\s(?P<bd>{_DAY})\.\s?(?P<bm>{_NUMBERED})\.(?!\d))
    |(?P<dmy>(?<![{_L}])(?P<ed>{_DAY})(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?(?P<em>{_MONTH})\b\.?(?:,?\s(?:de\s)?(?P<ey>{_YEAR})\b)?)
    |(?P<mdy>\b(?P<fm>{_MONTH})\b\.?\s(?:the\s)?(?P<fd>{_DAY})(?:st|nd|rd|th)?\b(?!\s?[:.]\d)(?:,?\s(?P<fy>{_YEAR})\b)?)
    |(?P<mon>\b(?:(?P<prep>{_PREPOSITIONS})\s)?(?P<gm>{_MONTH})\b(?:\.?,?\s(?P<gy>{_YEAR})\b)?)
    |(?P<clock>(?<![{_L}.:])(?P<ch>2[0-4]|[01]?\d)(?:[:.h](?P<cmin>[0-5]\d)(?::[0-5]\d)?)?\s?
        (?P<half>[ap]\.?m\b\.?|uhr(?:\s(?P<after>[0-5]\d)\b)?|o['’]clock))
    |(?P<colon>(?<![{_L}.:])(?P<kh>2[0-4]|[01]?\d)[:h](?P<kmin>[0-5]\d)(?::(?P<ks>[0-5]\d))?(?![{_L}:]))
    |(?P<phone>(?<![{_L}.+])(?:\d+(?:[ \u00a0/()-]{{1,2}}\d{{2,}}){{2,}}
        |[+0]\d{{2,}}(?:[ \u00a0/()-]{{1,2}}\d{{2,}})+)(?:-\d)?(?![{_L}])|\+\d{{7,}})
    |(?P<paid>(?P<currency>[$€£¥₹]|\b(?:usd|eur|gbp|chf)\s)\s?(?P<sum>{_PLAIN})(?P<scale>\s?(?:k|million|mio|m|bn)\b)?)
    |(?P<amount>(?<![{_L}.,])(?P<sign>[-−+])?(?:(?P<many>{_PLAIN})[ \u00a0\u202f-]?|(?P<said>\b{_WORD_NUMBER})[ -])
        (?P<unit>{_either(UNITS)})(?![{_L}²³]))
    |(?P<han>\d*[{_HAN}]+(?=[{_COUNTERS}]))
    |(?P<times>\b(?:{_either(_TIMES)})\b)
    |(?P<number>(?<![{_L}.,])(?P<minus>[-−])?(?P<plain>{_PLAIN})(?:/(?P<of>\d+)(?![{_L}/]))?(?![{_L}])(?![.,]\d)
        |(?<=\d[–-])\d+(?![{_L}])(?![.,]\d)|(?<![{_L}])\d+(?=[–-]\d))
    |(?P<spelt>\b{_WORD_NUMBER}\b)
    |(?P<weekday>\b(?:{_either(_WEEKDAYS)})\b)
    |(?P<fraction>[\u00bc-\u00be\u2150-\u215f]|(?<=\d)[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)
    """
"""Part of a verbose pattern without regard to case; read a match with `quantity`."""

WORDS: Final = frozenset(
    word
    for table in (_MONTHS, _WEEKDAYS, _WORDS, _TIMES, dict.fromkeys(_PREPOSITIONS.split("|"), ""))
    for words in table
    for word in re.split("[ -]", words)
) | frozenset(["am", "vom", "zum", "bis", "ab", "den", "dem", "seit", "der", "on", "usd", "eur", "gbp", "chf"])
"""What a quantity may begin with, beside digits and signs; casefolded."""


def quantity(kind: str, match: re.Match[str]) -> Read | None:
    """Return what a match of a group of `PATTERN` says; None: it is an ordinary word after all."""
    part = match.groupdict()
    match kind:
        case "iso" | "isom" | "cjk" | "dot" | "dmy" | "mdy" | "mon":
            return _date(kind, part)
        case "clock":
            hour, minute = int(part["ch"]), part["cmin"] or part["after"] or "00"
            half = part["half"].lower()
            if half[0] in "ap":
                hour = hour % 12 + (12 if half[0] == "p" else 0)
            return _time(hour, minute)
        case "colon":
            return _time(int(part["kh"]), part["kmin"] + (f":{part['ks']}" if part["ks"] else ""))
        case "phone":
            digits = re.sub(r"[^\d+]", "", match[kind])
            return (digits,), ()
        case "paid":
            return _amount(_plain(part["sum"]), part["currency"].strip().lower(), (part["scale"] or "").strip().lower())
        case "amount":
            many = _plain(part["many"]) if part["many"] else _WORDS[part["said"].lower()]
            sign = "-" if part["sign"] in ("-", "−") else ""
            return _amount(sign + many, part["unit"].lower())
        case "times":
            return (f"{_TIMES[match[kind].lower()]} ×",), ()
        case "number":
            if part["plain"] is None:
                return (match[kind],), ()
            number = ("-" if part["minus"] else "") + _plain(part["plain"])
            return (f"{number}/{part['of']}" if part["of"] else number,), ()
        case "spelt":
            return (_WORDS[match[kind].lower()],), ()
        case "weekday":
            return (_WEEKDAYS[match[kind].lower()],), ()
        case "han":
            return (str(_han(match[kind])),), ()
        case _:
            return (match[kind],), ()


def number_of(word: str) -> str | None:
    """Return the number that a casefolded word is; None: it is not one."""
    return word if word.isdecimal() else _WORDS.get(word)


def _date(kind: str, part: dict[str, str | None]) -> Read | None:
    year, month, day = {
        "iso": (part["iy"], part["im"], part["id"]),
        "isom": (part["my"], part["mm"], None),
        "cjk": (part["cy"], part["cm"], part["cd"]),
        "dot": (part["dy"], part["dm"] or part["bm"], part["dd"] or part["bd"]),
        "dmy": (part["ey"], part["em"], part["ed"]),
        "mdy": (part["fy"], part["fm"], part["fd"]),
        "mon": (part["gy"], part["gm"], None),
    }[kind]
    name = month or ""
    if kind == "mon" and year is None and (name.lower() in _OFTEN_OTHER and not (part["prep"] and name[0].isupper())):
        return None
    number = _MONTHS.get(name.lower()) or name.zfill(2)
    anyone = f"--{number}"
    if day is None:
        return ((f"{year}-{number}",), (anyone, year)) if year else ((anyone,), ())
    dated = f"{anyone}-{day.zfill(2)}"
    return ((f"{year}{dated[1:]}",), (dated, anyone, f"{year}-{number}", year)) if year else ((dated,), (anyone,))


def _time(hour: int, minute: str) -> Read:
    return (f"{hour:02}:{minute}",), (str(hour),) if minute == "00" else ()


def _amount(number: str, unit: str, scale: str = "") -> Read:
    if UNITS[unit] in _CURRENCIES and re.fullmatch(r"-?\d{1,3}\.\d{3}", number):
        number = number.replace(".", "")  # nobody writes money with three decimals
    if scale:
        number = f"{number} {UNITS.get(scale, scale)}"
    return (f"{number} {UNITS[unit]}",), (number,)


def _plain(number: str) -> str:
    """Return a number with a point before its fraction and nothing between its thousands."""
    number = re.sub("[ \u202f\u00a0'’]", "", number)
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", number):
        return number.replace(",", "")
    if re.fullmatch(r"\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}", number):
        return number.replace(".", "").replace(",", ".")
    return number.replace(",", ".")


def _han(number: str) -> int:
    """Return what Chinese numerals say: 三十五, 二万."""
    total, part, digit = 0, 0, 0
    for letter in number:
        if letter.isascii():
            digit = digit * 10 + int(letter)
        elif letter in "十百千":
            part += (digit or 1) * 10 ** ("十百千".index(letter) + 1)
            digit = 0
        elif letter == "万":
            total, part, digit = (total + part + digit) * 10_000, 0, 0
        else:
            digit = digit * 10 + "〇一二三四五六七八九".find(letter.replace("零", "〇").replace("两", "二"))
    return total + part + digit
