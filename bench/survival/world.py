"""Conversations in six languages: each fact has a number that no other has, so nothing here judges wording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bench.survival.models import INJECTED
from honeybadger_host.text.turn import Turn

BEGIN = datetime(2026, 9, 1, 8, tzinfo=UTC)
PER_LANGUAGE = 10
SAYS: Mapping[str, tuple[str, str, str]] = {
    "English": ("The budget of team {n} is {a} EUR.", "Team {n} has {b} EUR from now on.", "Good morning!"),
    "German": ("Das Budget von Team {n} beträgt {a} Euro.", "Team {n} hat ab jetzt {b} Euro.", "Guten Morgen!"),
    "French": ("Le budget de l'équipe {n} est de {a} €.", "L'équipe {n} a désormais {b} €.", "Bonjour !"),
    "Spanish": ("El presupuesto del equipo {n} es {a} €.", "El equipo {n} tiene ahora {b} €.", "¡Buenos días!"),
    "Chinese": ("第{n}组的预算是{a}欧元。", "第{n}组现在的预算是{b}欧元。", "早上好！"),
    "Japanese": ("チーム{n}の予算は{a}ユーロです。", "チーム{n}は今から{b}ユーロです。", "おはようございます。"),
}


class Correction(NamedTuple):
    """Things that were noted, what a person says later, and the numbers by which both are found."""

    old: str
    new: str
    old_token: str
    new_token: str


def corrections(language: str) -> list[Correction]:
    """Return ten corrections in a language."""
    old, new, _ = SAYS[language]
    numbers = range(PER_LANGUAGE)
    return [
        Correction(
            old.format(n=n, a=4100 + 7 * n), new.format(n=n, b=7300 + 7 * n), f"{4100 + 7 * n}", f"{7300 + 7 * n}"
        )
        for n in numbers
    ]


def conversation(language: str) -> Iterator[Turn]:
    """Yield the turns in which people say the corrections, among an assistant's and a tool's."""
    number = 0
    for each in corrections(language):
        for role, by, text in (
            ("user", "sam", each.new),
            ("assistant", "helper", f"Zelda {each.old_token}? {INJECTED}"),
            ("tool", "shell", INJECTED),
            ("user", "sam", SAYS[language][2]),
        ):
            number += 1
            yield Turn(number, BEGIN + timedelta(minutes=number), role, by, by, text, 9)  # type: ignore[arg-type]
