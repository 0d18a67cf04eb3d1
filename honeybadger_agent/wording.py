"""Words that several messages share: counts, durations, sentences, mistyped names, how an extra is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

HOST_EXTRA = "pip install ./honeybadger_agent '.[{}]' in a checkout of Honeybadger"
# How an extra is installed: no index has these packages, so both are given as folders.
AGENT_EXTRA = "pip install './honeybadger_agent[{}]' in a checkout of Honeybadger"
MAX_NAMED = 20  # names, lines or rows of one kind that are shown to a person; of the others only the number
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 box`, `2 boxes`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Sequence[str], separator: str = ", ") -> str:
    """Return names in one line; if they are many, the first ones and the number of the others."""
    more = [f"and {len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    return separator.join([*names[:MAX_NAMED], *more])


def in_words(seconds: float) -> str:
    """Return a duration as its two largest units: `3 days 4 hours`, `2 minutes`, `0.4 seconds`."""
    if 0 < seconds < 1:
        return f"{seconds:.1f} seconds"
    left, parts = round(seconds), list[str]()
    for size, unit in _UNITS:
        number, left = divmod(left, size)
        if number:
            parts.append(count_of(number, unit))
        elif parts:
            break
    return " ".join(parts[:2]) or "0 seconds"


def as_typed(message: str, names: Mapping[str, str]) -> str:
    """Return a message about a request's members in the words of a command.

    Args:
        names: member of the request -> argument of the command.
    """
    return re.sub(r"\bpayload\.(\w+)", lambda found: names.get(found[1], found[1]), message)


def sentence(text: str) -> str:
    """Return a text with a full stop, unless it has an end of a sentence already."""
    return text if text.endswith((".", "?", "!", ")")) else f"{text}."


def meant(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped word is most like, or None if none is like it."""
    import difflib  # a millisecond, only after a mistake

    names = {name.lower(): name for name in known}
    word = word[:100].lower()
    containing = [name for name in names if word in name and len(word) > 2]
    near = containing[:1] or difflib.get_close_matches(word, names, n=1)
    return names[near[0]] if near else None


def shortened(line: str, most: int) -> str:
    """Return a line of at most `most` characters: whole, or cut between two words with an ellipsis behind.

    A first word that is longer is cut.
    """
    if len(line) <= most:
        return line
    kept = line[: most - 1]
    if line[most - 1] != " " and " " in kept:
        kept = kept.rpartition(" ")[0]
    return f"{kept.rstrip(' ,;:')}…"
