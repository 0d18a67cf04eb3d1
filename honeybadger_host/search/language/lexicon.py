"""Word lists for the analyser, read from the files in this folder.

Each line is `key: words`; a line that begins with white space continues the one before.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final


def read_words(package: str, name: str) -> dict[str, list[str]]:
    """Return key -> words of a file of a package."""
    text = (files(package) / name).read_text(encoding="utf-8").replace("\n ", " ")
    lines = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return {key: words.split() for key, _, words in lines}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Language, by Snowball's name where it has a stemmer -> its function words, casefolded, accents as written.
STOP: Final = {language: frozenset(words) for language, words in read_words(__package__, "function_words.txt").items()}

# Function words of other languages that also occur in English, as words or in names: one alone decides nothing.
AMBIGUOUS: Final = STOP.pop("ambiguous")

# Language -> words that say little about a text's subject.
COMMON: Final = {language: frozenset(words) for language, words in read_words(__package__, "common_words.txt").items()}

# Irregular English form -> base form, applied before stemming.
IRREGULAR: Final = {
    form: base for base, forms in read_words(__package__, "irregular_words.txt").items() for form in forms
}

# Language -> verbs for saying something.
SAYING: Final = {
    "english": _words("say tell mention talk speak answer reply ask write suggest"),
    "german": _words("sagen gesagt sagt erzählt erzählen meint antwortet geantwortet schreibt geschrieben"),
}

# Words of categories that say nothing about their content.
CATEGORY_STOP: Final = _words("""
    user users preference preferences general note notes misc fact facts memory memories info information
    """)

# Language -> its letters, for scripts other than Latin; its stemmer gets such words.
SCRIPTS: Final = (
    ("russian", "\u0400-\u052f"),
    ("arabic", "\u0600-\u06ff"),
    ("greek", "\u0370-\u03ff\u1f00-\u1fff"),
    ("hindi", "\u0900-\u097f"),
    ("hebrew", "\u0590-\u05ff"),
    ("armenian", "\u0530-\u058f"),
    ("tamil", "\u0b80-\u0bff"),
)
