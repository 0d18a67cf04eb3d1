"""Whether a question asks for a time, or about the asker. Pure.

It is read in English and in its own language: `Ben` is a name unless the question is Turkish.

Sources: docs/decisions/017-recall.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final


def asks_of_oneself(text: str, language: str) -> bool:
    """Return whether a casefolded question is about the asker."""
    if _compiled(_FIRST_PERSON["english"]).search(text):
        return True
    if language != "english" and language in _FIRST_PERSON and _compiled(_FIRST_PERSON[language]).search(text):
        return True
    return not text.isascii() and re.search(_FIRST_PERSON[_OTHER], text) is not None


def asks_time(text: str) -> bool:
    """Return whether a casefolded question in English asks when, or how long."""
    return _TIME.search(text) is not None


_OTHER: Final = "other scripts"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern that begins at a word; compiled at the first question in its language."""
    return re.compile(rf"\b(?:{pattern})")


_FIRST_PERSON: Final[Mapping[str, str]] = {
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
_TIME: Final = re.compile(
    r"\b(?:when|how long|how recently|(?:what|which) (?:\w+ )?(?:time|date|days?|month|year|week|weekend))\b"
)
