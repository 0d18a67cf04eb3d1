"""Dates, times, amounts and numbers in a text, each in one form however it is written. Pure.

`7 May`, `May 7th` and `7. Mai` are `--05-07`; `8 pm` and `20 Uhr` are `20:00`; `8 kg` and `8 kilograms` are `8 kg`,
`$20` and `20 dollars` are `20 $`; `twelve` is `12`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from honeybadger_host.curation.ordinary import word_forms, word_set

Read: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""What is said for certain, and what somebody who says it also says: `2026-05-07` says `--05-07`."""

_MONTHS: Final = word_forms("months")
_OFTEN_OTHER: Final = word_set("months_or_words")
_NAMED: Final = word_forms("weekdays") | {word: f"{times} ×" for word, times in word_forms("times").items()}
UNITS: Final = word_forms("units")
_CURRENCIES: Final = frozenset("$€£¥₹") | {"CHF"}
_TENS: Final = word_forms("tens")
_ONES: Final = word_forms("ones")
_NUMBERS: Final = {**_ONES, **_TENS, **word_forms("numbers")} | {
    written: str(int(t) + int(o))
    for ten, t in _TENS.items()
    for one, o in _ONES.items()
    for written in (f"{ten}-{one}", f"{ten} {one}", f"{one}und{ten}")
}


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_YEAR: Final = r"(?P<year>(?:1[89]|20|21)\d\d)"
_MONTH: Final = r"(?P<month>1[0-2]|0?[1-9])"
_DAY: Final = r"(?P<day>3[01]|[12]\d|0?[1-9])"
_NAMED_MONTH: Final = rf"(?P<month>{_either(_MONTHS)})"
_HOUR: Final = r"(?P<hour>2[0-4]|[01]?\d)"
_BEFORE_MONTHS: Final = "in|im|of|since|until|during|early|late|mid|last|this|next|by|seit|bis|en|a"
_BEFORE_DATES: Final = "am|vom|zum|bis|ab|den|dem|seit|der|on"
_BEFORE_SUMS: Final = "usd|eur|gbp|chf"
_PLAIN: Final = (
    r"(?P<many>\d{1,3}(?:[,'’ \u202f\u00a0]\d{3})+(?!\d)(?:\.\d+)?"
    r"|\d{1,3}(?:\.\d{3})+(?:,\d+|(?=\.\d))|\d{1,3}(?:\.\d{3}){2,}|\d+(?:[.,]\d+)?)"
)
_HALF: Final = r"(?P<half>[ap]\.?m\b\.?|uhr(?:\s(?P<after>[0-5]\d)\b)?|o['’]clock)"
_SPELT: Final = rf"\b(?P<spelt>{_either(_NUMBERS)})"
_GROUP: Final = r"(?:[ \u00a0/()-]{1,2}\d{2,})"
_UNIT: Final = rf"(?P<unit>{_either(UNITS)})"
_HAN: Final = "〇零一二两三四五六七八九十百千万"
_COUNTERS: Final = (
    "个個人名匹本枚台回次年月日天周週時小点點分块塊元円岁歳歲度倍公米千克斤页頁章岁楼樓层階号號杯只件份歩步%"
)
_L: Final = "0-9A-Za-z_\u00aa\u00b5\u00c0-\u024f\u0370-\u052f"
"""What continues a number or a word; in Chinese and Japanese nothing stands between them."""

WORDS: Final = frozenset(
    word
    for words in (*_MONTHS, *_NAMED, *_NUMBERS, *"|".join((_BEFORE_MONTHS, _BEFORE_DATES, _BEFORE_SUMS)).split("|"))
    for word in re.split("[ -]", words)
)
"""What a quantity may begin with, beside digits and signs; casefolded."""


def number_of(word: str) -> str | None:
    """Return the number that a casefolded word is; None: it is not one."""
    return word if word.isdecimal() else _NUMBERS.get(word)


def _date(found: re.Match[str]) -> Read | None:
    part = found.groupdict()
    year, month, day = (part.get(name) for name in ("year", "month", "day"))
    name = month or ""
    if name.lower() in _OFTEN_OTHER and not (year or day or (part.get("before") and name[0].isupper())):
        return None
    anyone = f"--{_MONTHS.get(name.lower()) or name.zfill(2)}"
    dated = f"{anyone}-{day.zfill(2)}" if day else anyone
    if not year:
        return (dated,), (anyone,)
    return (f"{year}{dated[1:]}",), (dated, anyone, f"{year}{anyone[1:]}", year)


def _time(found: re.Match[str]) -> Read:
    part = found.groupdict()
    hour, minute = int(part["hour"]), part.get("minute") or part.get("after") or "00"
    if (half := (part.get("half") or "u").lower()[0]) in "ap":
        hour = hour % 12 + (12 if half == "p" else 0)
    return (f"{hour:02}:{minute}{part.get('second') or ''}",), (str(hour),) if minute == "00" else ()


def _amount(found: re.Match[str]) -> Read:
    part = found.groupdict()
    spelt, of, scale = part.get("spelt"), part.get("of"), (part.get("scale") or "").strip().lower()
    unit = UNITS.get((part.get("unit") or "").strip().lower(), "")
    number = _NUMBERS[spelt.lower()] if spelt else _plain(part["many"])
    if unit in _CURRENCIES and re.fullmatch(r"\d{1,3}\.\d{3}", number):
        number = number.replace(".", "")  # nobody writes money with three decimals
    number = ("-" if part.get("sign") in ("-", "−") else "") + number + (f"/{of}" if of else "")
    said = " ".join(filter(None, (number, UNITS.get(scale, scale), unit)))
    return (said,), (number,)


def _plain(number: str) -> str:
    """Return a number with a point before its fraction and nothing between its thousands."""
    number = re.sub("[ \u202f\u00a0'’]", "", number)
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", number):
        return number.replace(",", "")
    if re.fullmatch(r"\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}", number):
        number = number.replace(".", "")
    return number.replace(",", ".")


def _phone(found: re.Match[str]) -> Read:
    return (re.sub(r"[^\d+]", "", found[0]),), ()


def _han(found: re.Match[str]) -> Read:
    """Return what Chinese numerals say: 三十五, 二万."""
    total, part, digit = 0, 0, 0
    for letter in found[0].translate(str.maketrans("零两", "〇二")):
        if letter.isascii():
            digit = digit * 10 + int(letter)
        elif letter in "十百千":
            part += (digit or 1) * 10 ** ("十百千".index(letter) + 1)
            digit = 0
        elif letter == "万":
            total, part, digit = (total + part + digit) * 10_000, 0, 0
        else:
            digit = digit * 10 + "〇一二三四五六七八九".index(letter)
    return (str(total + part + digit),), ()


PATTERNS: Final[Sequence[tuple[str, Callable[[re.Match[str]], Read | None]]]] = (
    (rf"(?<![{_L}.]){_YEAR}(?P<sep>[-/.]){_MONTH}(?P=sep){_DAY}(?!\d)(?!-\w)", _date),
    (rf"(?<![{_L}.-]){_YEAR}-(?P<month>0[1-9]|1[0-2])(?![{_L}-])", _date),
    (rf"(?:{_YEAR}\s?[年년]\s?)?(?<!\d){_MONTH}[月월](?:\s?{_DAY}[日號号일])?", _date),
    (rf"(?<![{_L}.]){_DAY}\.\s?{_MONTH}\.\s?{_YEAR}(?!\d)", _date),
    (rf"\b(?:{_BEFORE_DATES})\s{_DAY}\.\s?{_MONTH}\.(?!\d)", _date),
    (rf"(?<![{_L}]){_DAY}(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?{_NAMED_MONTH}\b\.?(?:,?\s(?:de\s)?{_YEAR}\b)?", _date),
    (rf"\b{_NAMED_MONTH}\b\.?\s(?:the\s)?{_DAY}(?:st|nd|rd|th)?\b(?!\s?[:.]\d)(?:,?\s{_YEAR}\b)?", _date),
    (rf"\b(?:(?P<before>{_BEFORE_MONTHS})\s)?{_NAMED_MONTH}\b(?:\.?,?\s{_YEAR}\b)?", _date),
    (rf"(?<![{_L}.:]){_HOUR}(?:[:.h](?P<minute>[0-5]\d)(?::[0-5]\d)?)?\s?{_HALF}", _time),
    (rf"(?<![{_L}.:]){_HOUR}[:h](?P<minute>[0-5]\d)(?P<second>:[0-5]\d)?(?![{_L}:])", _time),
    (rf"(?<![{_L}.+])(?:\d+{_GROUP}{{2,}}|[+0]\d{{2,}}{_GROUP}+)(?:-\d)?(?![{_L}])|\+\d{{7,}}", _phone),
    (rf"(?P<unit>[$€£¥₹]|\b(?:{_BEFORE_SUMS})\s)\s?{_PLAIN}(?P<scale>\s?(?:k|million|mio|m|bn)\b)?", _amount),
    (rf"(?<![{_L}.,])(?P<sign>[-−+])?(?:{_PLAIN}[ \u00a0\u202f-]?|{_SPELT}[ -]){_UNIT}(?![{_L}²³])", _amount),
    (rf"\d*[{_HAN}]+(?=[{_COUNTERS}])", _han),
    (rf"(?<![{_L}.,])(?P<sign>[-−])?{_PLAIN}(?:/(?P<of>\d+)(?![{_L}/]))?(?![{_L}])(?![.,]\d)", _amount),
    (rf"(?P<many>(?<=\d[–-])\d+(?![{_L}])(?![.,]\d)|(?<![{_L}])\d+(?=[–-]\d))", _amount),
    (rf"{_SPELT}\b", _amount),
    (rf"\b(?:{_either(_NAMED)})\b", lambda found: ((_NAMED[found[0].lower()],), ())),
)
"""Patterns without regard to case, and what reads a match; None: it is an ordinary word after all."""
