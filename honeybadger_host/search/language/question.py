"""What a question asks for beside its words: a time, a number, oneself, what the other side said. Pure.

A question is read in English and in the language it is in: `Ben` is a name where it is not Turkish.

Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

_Patterns = Mapping[str, str]
"""Language -> pattern."""


def asks_of_oneself(text: str, language: str) -> bool:
    """Return whether a casefolded question is about the one who asks."""
    return _says(_FIRST_PERSON, text, language)


def asks_of_the_other(text: str, language: str) -> bool:
    """Return whether a casefolded question is about what the other side said."""
    return _says(_SECOND_PERSON, text, language)


def asks_time(text: str, language: str) -> bool:
    """Return whether a casefolded question asks when, or how long."""
    return _says(_TIME, text, language)


def asks_number(text: str, language: str) -> bool:
    """Return whether a casefolded question asks how many, or how much."""
    return _says(_NUMBER, text, language)


def _says(patterns: _Patterns, text: str, language: str) -> bool:
    if _compiled(patterns["english"]).search(text):
        return True
    if language != "english" and language in patterns and _compiled(patterns[language]).search(text):
        return True
    return not text.isascii() and re.search(patterns[_OTHER], text) is not None


_OTHER: Final = "other scripts"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern that begins with a word; made when its language is asked in first."""
    return re.compile(rf"\b(?:{pattern})")


_FIRST_PERSON: Final[_Patterns] = {
    "english": r"(?:i|i'm|i've|i'd|i'll|my|me|mine|myself)\b",
    "german": r"(?:ich|mein\w*|mir|mich)\b",
    "french": r"(?:je|j'\w+|mon|ma|mes|moi|m'\w+)\b",
    "spanish": r"(?:yo|mi|mis|mío|mía)\b",
    "italian": r"(?:io|mio|mia|miei|mie)\b",
    "portuguese": r"(?:eu|meus?|minhas?)\b",
    "dutch": r"(?:ik|mijn)\b",
    "swedish": r"(?:jag|min|mitt|mina|mig)\b",
    "danish": r"(?:jeg|min|mit|mine|mig)\b",
    "norwegian": r"(?:jeg|min|mitt|mine|meg)\b",
    "finnish": r"(?:minä|minun|minulla|minut)\b",
    "polish": r"(?:ja|mnie|mój|moja|moje|moich|mojego|mojej)\b",
    "czech": r"(?:já|můj|moje|mně|mého)\b",
    "turkish": r"(?:ben|benim|bana|beni)\b",
    "hungarian": r"(?:én|nekem|engem)\b",
    "romanian": r"(?:eu|meu|mea|mele|mei|mie)\b",
    "indonesian": r"(?:saya|aku)\b",
    "vietnamese": r"(?:tôi|mình)\b",
    _OTHER: (
        r"\b(?:я|мо[йяёеи]|меня|мне|мной|моего|моей|моих|моему|моим|мою|мій|моє|мені|εγώ|μου)\b|"
        r"(?<!\w)(?:أنا|لي|عندي|معي|لدي|मैं|मैंने|मेरा|मेरी|मेरे|मुझे|אני|שלי|לי)(?!\w)|"
        "[我俺咱]|私|僕|わたし|(?<![가-힣])(?:내|제|나|저)(?:가|는|의|게|한테)?(?![가-힣])"
    ),
}
_SECOND_PERSON: Final[_Patterns] = {
    "english": (
        r"you (?:\w+ )?(?:told|tell|said|say|suggest\w*|recommend\w*|mention\w*|g[ai]ve|provid\w*|list\w*|shar\w*|"
        r"explain\w*|describ\w*|ma[dk]e|wr[io]te|created?|show\w*|advis\w*)\b|"
        r"(?:remind me|your (?:suggest|recommend|answer|advice))"
    ),
    "german": r"(?:hast|hattest) du mir\b|haben sie mir\b|du mir\b|dein\w* (?:rat|vorschl|empfehl|tipp|antwort)",
    "french": r"(?:tu|vous) m'a|m'a(?:s-tu|vez-vous)\b|(?:tes|vos) (?:conseil|recommand|suggest|propos)",
    "spanish": r"me (?:\w+ )?(?:recomend|aconsej|suger|dij|propus|explic|diste|contaste|dio)",
    "italian": r"mi (?:hai|avevi|ha) (?:detto|consigliat|suggerit|raccomandat|propost|spiegat)",
    "portuguese": r"(?:você|me) (?:\w+ )?(?:disse|recomend|suger|aconselh|explic)",
    "dutch": r"(?:heb|had) je me\b|je me (?:hebt|had)\b",
    _OTHER: (
        r"\b(?:ты|вы) (?:мне )?(?:сказал|говорил|посовет|совет|рекоменд|предл)|"
        "(?<![和跟给給对對向与與])[你您](?:之前|曾经|曾經|曾|上次|以前)?"
        "(?:给|給|推荐|推薦|建议|建議|告诉|告訴|说|說|提|教|列|介绍|介紹)|"
        "(?:教えて|勧めて|すすめて|薦めて|言って|提案して)(?:くれ|もら|いただ)|"
        "추천해|알려 ?[주줬준]|제안해"
    ),
}
_TIME: Final[_Patterns] = {
    "english": (
        r"(?:when|how long|how recently|(?:what|which) (?:\w+ )?(?:time|date|days?|month|year|week|weekend))\b"
    ),
    "german": (
        r"(?:wann|wie lange|wie spät|um wie ?viel uhr)\b|"
        r"(?:welche[mnrs]?|was für ein) (?:tag|datum|monat|jahr|woche|uhrzeit)"
    ),
    "french": r"(?:quand|depuis|combien de temps|quel(?:le)? (?:heure|date|jour|année|mois|semaine))\b",
    "spanish": r"(?:cuándo|cuánto tiempo|qué (?:hora|día|fecha|mes|año|semana))\b",
    "italian": r"(?:quando|quanto tempo|che (?:ora|giorno|mese|anno))\b",
    "portuguese": r"(?:quando|quanto tempo|que (?:dia|horas?|mês|ano))\b",
    "dutch": r"(?:wanneer|hoe lang|hoe laat|welke (?:dag|datum|maand|week))\b",
    "swedish": r"(?:när|hur länge|vilken (?:dag|tid))\b",
    "danish": r"(?:hvornår|hvor længe)\b",
    "norwegian": r"(?:når|hvor lenge)\b",
    "finnish": r"(?:milloin|kuinka kauan|mihin aikaan)\b",
    "polish": r"(?:kiedy|jak długo|o której)\b",
    "czech": r"(?:kdy|jak dlouho)\b",
    "turkish": r"ne zaman\b|saat kaç|kaç (?:gün|ay|yıl|saat)",
    "hungarian": r"(?:mikor|meddig|mennyi ideig)\b",
    "romanian": r"(?:când|cât timp)\b",
    "indonesian": r"(?:kapan|berapa lama)\b",
    "vietnamese": r"(?:khi nào|bao giờ|bao lâu|ngày nào)\b",
    _OTHER: (
        r"\b(?:когда|как давно|во сколько|как долго|сколько времени|коли)\b|"
        r"\b(?:какого|каком|какой) (?:числа|году|месяце|день)\b|"
        r"(?<!\w)(?:متى|كم من الوقت|πότε|कब|מתי|چه زمانی)(?!\w)|"
        "什么时候|什麼時候|何时|何時|哪一?[天年月日]|[几幾][点點号號月时時]|多久|哪个月|哪個月|什么日子|"
        "いつ|何日|何月|何年|何曜|언제|몇 ?[시월년]|며칠|얼마나 오래|무슨 요일"
    ),
}
_NUMBER: Final[_Patterns] = {
    "english": (r"(?:how (?:many|much|often|old|far|tall|big|large|high)|what (?:\w+ )?(?:number|amount|price|age))\b"),
    "german": r"wie ?viel|wie (?:hoch|alt|groß|oft|weit|schwer|teuer)\b",
    "french": r"combien\b|quel (?:âge|prix|montant|nombre)\b|quelle taille\b",
    "spanish": r"cuánt[oa]s?\b|qué (?:edad|precio|cantidad|número)\b",
    "italian": r"quant[oiae]\b|che età\b",
    "portuguese": r"quant[oa]s?\b",
    "dutch": r"hoeveel\b|hoe (?:oud|groot|vaak|duur|hoog)\b",
    "swedish": r"hur (?:många|mycket|gammal|ofta|stor)\b",
    "danish": r"hvor (?:mange|meget|gammel|ofte|stor)\b",
    "norwegian": r"hvor (?:mange|mye|gammel|ofte|stor)\b",
    "finnish": r"kuinka (?:monta|paljon|vanha)\b|montako\b",
    "polish": r"ile\b",
    "czech": r"kolik\b",
    "turkish": r"kaç\b|ne kadar\b",
    "hungarian": r"(?:hány|mennyi)\b",
    "romanian": r"(?:cât|câtă|câte|câți)\b",
    "indonesian": r"berapa\b",
    "vietnamese": r"(?:bao nhiêu|mấy)\b",
    _OTHER: (
        r"\b(?:сколько|как часто|скільки|πόσ\w+)\b|(?<!\w)(?:كم|چند|چقدر|כמה)(?!\w)|कितन|"
        "多少|[几幾][个個次岁歲本只隻人家台块塊元瓶张張间間晚]|多[大高长長重远遠]|"
        "いくつ|いくら|何[人個回歳冊本枚部匹円台歩]|どのくらい|どれくらい|몇|얼마"
    ),
}
