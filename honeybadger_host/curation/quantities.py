"""Dates, times, amounts and numbers in a text, each in one form however it is written. Pure.

`7 May`, `May 7th` and `7. Mai` are `--05-07`; `8 pm` and `20 Uhr` are `20:00`; `8 kg` and `8 kilograms` are `8 kg`,
`$20` and `20 dollars` are `20 $`; `twelve` is `12`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from honeybadger_host.curation.ordinary import word_set

Read: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""What is said for certain, and what somebody who says it also says: `2026-05-07` says `--05-07`."""


def _table(text: str) -> dict[str, str]:
    """Return word -> form, from `form=word,word` items."""
    items = (item.partition("=") for item in text.split())
    return {word.replace("_", " "): form for form, _, words in items for word in words.split(",")}


_MONTHS: Final = _table("""
    01=january,jan,januar,jänner,janvier,enero,gennaio,janeiro,januari
    02=february,feb,februar,feber,février,febrero,febbraio,fevereiro,februari
    03=march,mar,märz,mars,marzo,março,maart 04=april,apr,avril,abril,aprile
    05=may,mai,mayo,maggio,maio,mei 06=june,jun,juni,juin,junio,giugno,junho
    07=july,jul,juli,juillet,julio,luglio,julho 08=august,aug,août,agosto,augustus
    09=september,sep,sept,septembre,septiembre,settembre,setembro 10=october,oct,oktober,okt,octobre,octubre,ottobre
    10=outubro 11=november,nov,novembre,noviembre,novembro 12=december,dec,dezember,dez,décembre,diciembre,dicembre
    12=dezembro
    """)
_OFTEN_OTHER: Final = word_set("may march mar jan jun dec mars mei sep nov")
"""They mean something else as often: without a day or a year they need a preposition."""
_WEEKDAYS: Final = _table("""
    monday=monday,mondays,montag,montags,lundi,lunes,lunedì
    tuesday=tuesday,tuesdays,dienstag,dienstags,mardi,martes,martedì
    wednesday=wednesday,wednesdays,mittwoch,mittwochs,mercredi,miércoles,mercoledì
    thursday=thursday,thursdays,donnerstag,donnerstags,jeudi,jueves,giovedì
    friday=friday,fridays,freitag,freitags,vendredi,viernes,venerdì
    saturday=saturday,saturdays,samstag,samstags,sonnabend,samedi,sábado,sabato
    sunday=sunday,sundays,sonntag,sonntags,dimanche,domingo,domenica
    daily=daily,täglich,quotidien,diario hourly=hourly,stündlich weekly=weekly,wöchentlich
    monthly=monthly,monatlich yearly=yearly,annually,jährlich nightly=nightly
    """)
UNITS: Final = _table("""
    kg=kg,kilo,kilos,kilogram,kilograms,kilogramm g=g,gram,grams,gramm mg=mg,milligram,milligrams,milligramm
    µg=µg,μg,mcg,microgram,micrograms,mikrogramm t=tonne,tonnes,tonnen l=l,litre,litres,liter,liters
    ml=ml,millilitre,millilitres,milliliter,milliliters cl=cl dl=dl km=km,kilometre,kilometres,kilometer,kilometers
    m=m,metre,metres,meter,meters cm=cm,centimetre,centimetres,centimeter,centimeters,zentimeter
    mm=mm,millimetre,millimetres,millimeter,millimeters mi=mile,miles,meile,meilen ft=ft,foot,feet,fuß
    in=inch,inches,zoll lb=lb,lbs,pound,pounds,pfund oz=oz,ounce,ounces h=h,hr,hrs,hour,hours,stunde,stunden,std,heures
    min=min,mins,minute,minutes,minuten s=s,sec,secs,second,seconds,sek,sekunde,sekunden
    ms=ms,millisecond,milliseconds,millisekunden day=day,days,tag,tage,tagen,jours,días
    week=week,weeks,woche,wochen,semaines,semanas month=month,months,monat,monate,monaten,mois,meses
    year=year,years,yr,yrs,jahr,jahre,jahren,ans,años
    B=byte,bytes kB=kb MB=mb,megabyte,megabytes GB=gb,gigabyte,gigabytes
    TB=tb,terabyte,terabytes KiB=kib MiB=mib,mi,ki GiB=gib,gi °C=°c,celsius °F=°f,fahrenheit °=°,degrees,grad
    W=w,watt,watts
    kW=kw kWh=kwh V=v,volt,volts A=amp,amps,ampere Hz=hz kHz=khz MHz=mhz GHz=ghz px=px,pixel,pixels kcal=kcal
    kcal=calories,kalorien mph=mph km/h=km/h,kmh,kph m²=m²,m2,sqm,qm m³=m³,m3 ft²=ft²,sqft %=%,percent,prozent,per_cent
    $=$,usd,dollar,dollars €=€,eur,euro,euros £=£,gbp CHF=chf,franken ¥=¥,jpy,yen ₹=₹,inr,rupees ct=cents,cent
    million=million,millions,millionen,mio billion=billion,billions,milliarden,mrd k=k ×=x,×,times,mal
    """)
_CURRENCIES: Final = frozenset("$€£¥₹") | {"CHF"}
_TENS: Final = _table("""
    20=twenty,zwanzig 30=thirty,dreißig 40=forty,vierzig 50=fifty,fünfzig 60=sixty,sechzig 70=seventy,siebzig
    80=eighty,achtzig 90=ninety,neunzig
    """)
_ONES: Final = _table("""
    2=two,zwei,deux,dos 3=three,drei,trois,tres 4=four,vier,quatre,cuatro 5=five,fünf,cinq,cinco 6=six,sechs,seis
    7=seven,sieben,sept_,siete 8=eight,acht,huit,ocho 9=nine,neun,neuf,nueve
    """)
_WORDS: Final = {
    **_ONES,
    **_TENS,
    **_table("""
    10=ten,zehn 11=eleven,elf 12=twelve,zwölf,dozen,dutzend 13=thirteen,dreizehn 14=fourteen,vierzehn
    15=fifteen,fünfzehn
    16=sixteen,sechzehn 17=seventeen,siebzehn 18=eighteen,achtzehn 19=nineteen,neunzehn 100=hundred,hundert
    1000=thousand,tausend 0.5=half,halb,halbe,halben
    """),
    **{
        f"{tens}{dash}{one}": str(int(t) + int(o))
        for tens, t in _TENS.items()
        for one, o in _ONES.items()
        for dash in "- "
    },
    **{f"{one}und{tens}": str(int(t) + int(o)) for tens, t in _TENS.items() for one, o in _ONES.items()},
}
_TIMES: Final = _table("2=twice,zweimal 3=thrice,dreimal 4=viermal")


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
) | word_set("am vom zum bis ab den dem seit der on usd eur gbp chf")
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
