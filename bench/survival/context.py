"""What a summary answers about long conversations in three languages, beside 500 words of people's newest turns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from bench.survival.world import BEGIN
from honeybadger_host.curation.consolidation import Consolidated, Material, operations_of
from honeybadger_host.curation.said import sentences_of
from honeybadger_host.text.turn import Turn

TURNS: Final = 240
WORDS: Final = 500
_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


class Language(NamedTuple):
    """A conversation's material: small talk, sentences with a fact and what an assistant says to them."""

    talk: Sequence[str]
    facts: Sequence[str]
    answer: str


LANGUAGES: Final[Mapping[str, Language]] = {
    "English": Language(
        (
            "Sorry for the late answer, the morning was full and I only have a minute before the next call starts.",
            "I am not sure what to make of it yet, maybe we talk about that again when everybody has slept on it.",
            "That sounds good to me. Let us go on as we said, and tell me when something comes up in between.",
        ),
        (
            "The deposit for the flat in lane {n} is {token} EUR, and it was paid.",
            "Please remember that the train to office {n} leaves at track {token}.",
            "We decided to call the new server of team {n} node-{token}, because the old name was taken.",
        ),
        "Understood. I have looked it up and will keep an eye on it. Is there anything else that I can do for you?",
    ),
    "German": Language(
        (
            "Entschuldige die späte Antwort, der Vormittag war voll und gleich beginnt schon das nächste Gespräch.",
            "Ich weiß noch nicht, was ich davon halten soll, vielleicht reden wir morgen in Ruhe noch einmal darüber.",
            "Das klingt gut. Machen wir so weiter wie besprochen, und sag Bescheid, wenn etwas dazwischenkommt.",
        ),
        (
            "Die Kaution für die Wohnung in Gasse {n} beträgt {token} Euro und ist überwiesen.",
            "Bitte merk dir, dass der Zug zum Büro {n} auf Gleis {token} abfährt.",
            "Wir haben beschlossen, den neuen Server von Team {n} node-{token} zu nennen.",
        ),
        "Verstanden. Ich habe nachgesehen und behalte es im Auge. Kann ich sonst noch etwas für dich tun?",
    ),
    "Japanese": Language(
        (
            "返事が遅くなってすみません。午前中は忙しくて、次の会議まで一分しかありません。",
            "まだどう考えればいいか分かりません。明日もう一度ゆっくり話しましょう。",
            "いいですね。話した通りに進めましょう。何かあったら教えてください。",
        ),
        (
            "{n}番の部屋の敷金は{token}ユーロで、もう払いました。",
            "{n}番の事務所へ行く電車は{token}番線から出ることを覚えておいてください。",
            "チーム{n}の新しいサーバーはnode-{token}と呼ぶことに決めました。",
        ),
        "分かりました。確認しておきます。ほかに何かお手伝いできることはありますか。",
    ),
}


def conversation(language: str) -> Iterator[Turn]:
    """Yield turns of a person, every second one with a fact, and of an assistant."""
    said = LANGUAGES[language]
    for number in range(1, TURNS + 1):
        n = number // 2
        text = said.answer
        if number % 2:
            text = said.talk[n % 3]
            if n % 2:
                text += (" " if language != "Japanese" else "") + said.facts[n // 2 % 3].format(n=n, token=token(n))
        role, by = ("user", "sam") if number % 2 else ("assistant", "helper")
        yield Turn(number, BEGIN + timedelta(minutes=number), role, by, by, text, 9)  # type: ignore[arg-type]


def token(n: int) -> str:
    return f"{5003 + 17 * n}"


def newest(turns: Sequence[Turn]) -> str:
    """Return people's turns, whole, the newest that have 500 words, in the order said."""
    room, kept = WORDS, list[str]()
    for turn in reversed([turn for turn in turns if turn.role == "user"]):
        room -= len(turn.content.split()) + len(_CJK.findall(turn.content)) // 2
        if room < 0:
            break
        kept.append(f"[{turn.at:%Y-%m-%d %H:%M}] {turn.by}: {turn.content}")
    return "\n".join(reversed(kept))


def rows() -> Iterator[tuple[str, str, int, int]]:
    """Yield language, way, questions answered of those with a fact, and characters."""
    for language in LANGUAGES:
        turns = [*conversation(language)]
        tokens = [token(n) for n in range(TURNS // 2) if n % 2]
        material = Material("main", turns, [], [], {}, lambda turn: turn.role == "user")
        facts = {turn.number: any(each in turn.content for each in tokens) for turn in turns if turn.role == "user"}
        # an ideal chooser: the last sentence of each turn that has a fact, the newest forty
        last = [f"{number}.{_last(turns[number - 1])}" for number, has in facts.items() if has]
        chosen = Consolidated(summary=tuple(last[-40:]))
        ways = {
            "people's turns, newest first, 500 words": newest(turns),
            "summary.md without a model": _summary(Consolidated(summary=()), material),
            "summary.md, a model that chooses well": _summary(chosen, material),
        }
        for way, text in ways.items():
            yield language, way, sum(each in text for each in tokens), len(text)


def _last(turn: Turn) -> int:
    return len(sentences_of(turn.content))


def _summary(answer: Consolidated, material: Material) -> str:
    made = operations_of(answer, material, "bench", prose=False)
    return next(each.result or "" for each in made if each.op == "write_summary")
