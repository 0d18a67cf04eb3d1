"""Answers from contexts of long conversations in three languages, and 500 words of people's newest turns."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import anyio

from bench.hosting import running
from bench.survival.world import BEGIN
from honeybadger_agent import SyncClient
from honeybadger_agent.models.model import ModelSaid, Prompt
from honeybadger_agent.models.scripted import ScriptedModel
from honeybadger_host.compose import build
from honeybadger_host.configuration import load_settings
from honeybadger_host.curation.asking import Asker
from honeybadger_host.curation.consolidation import Consolidations
from honeybadger_host.files.home import make_home
from honeybadger_host.memory.turn_log import dump_turn, turns_file
from honeybadger_host.settings import Curation, Settings
from honeybadger_host.text.turn import Turn

TURNS = 240
WORDS = 500
_WINDOW = 50  # the default of `consolidation.memory_window`
_SUMMARY = "\n## Conversation Summary\n"
_RECENT = "\n## Recent Conversation\n"
_NUMBERED_FACT = re.compile(r"^  (\d+\.\d+) .*\d{4}", re.MULTILINE)
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


class Row(NamedTuple):
    """Answered questions: how many, and the characters of the minutes and of the whole context."""

    language: str
    way: str
    answered: int
    characters: int
    of_context: int


class Language(NamedTuple):
    """A conversation's material: small talk, sentences with a fact and what an assistant says to them."""

    talk: Sequence[str]
    facts: Sequence[str]
    answer: str


LANGUAGES: Mapping[str, Language] = {
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


def rows() -> Iterator[Row]:
    """Yield what answers the questions about each conversation, of which a host consolidates turn after turn."""
    for language in LANGUAGES:
        text = newest([*conversation(language)])
        yield Row(language, "people's turns, newest first, 500 words", _answered(text), len(text), 0)
    with tempfile.TemporaryDirectory() as folder:
        for way, has_model in (("without a model", False), ("with a model that chooses well", True)):
            home = Path(folder) / f"{has_model}"
            make_home(home)
            for said in [*range(_WINDOW + 1, TURNS, _WINDOW // 2), TURNS]:
                _consolidate(home, said, has_model=has_model)
            with running(home, ["model.name=offline"]):
                for language in LANGUAGES:
                    context = SyncClient(home, language, "bee", session="main", timeout_seconds=60).get_context().system
                    summary = context.partition("\n## Conversation Summary\n")[2].partition(
                        "\n## Recent Conversation\n"
                    )[0]
                    yield Row(language, f"a context, {way}", _answered(context), len(summary), len(context))


def _consolidate(home: Path, said: int, *, has_model: bool) -> None:
    """Consolidate each conversation as it is after so many turns."""
    for language in LANGUAGES:
        path = home / turns_file(language, "main")
        path.parent.mkdir(parents=True, exist_ok=True)
        turns = [*conversation(language)][:said]
        path.write_bytes(b"".join(dump_turn(turn, f"r{turn.number}") for turn in turns))
    host = build(home, load_settings(home).settings)

    async def opened() -> ScriptedModel:
        return ScriptedModel(choose, piece_characters=100_000)

    async def run() -> None:
        writer = host.pipeline.writer
        asker = Asker(
            host.journal,
            lambda: writer,
            opened if has_model else None,
            str,
            Settings(curation=Curation(tokens_per_day=0)),
        )
        uses = replace(host.curator.uses, asker=asker)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.pipeline.run)
            for language in LANGUAGES:
                while await Consolidations(uses).consolidate(language, "main"):
                    pass
            tasks.cancel_scope.cancel()

    try:
        anyio.run(run)
    finally:
        host.close()


def choose(prompt: Prompt) -> ModelSaid:
    """Answer as an honest model: each sentence with a fact is one, and the newest of them are the summary."""
    before, _, turns = str(prompt.messages[-1]).replace("\\n", "\n").partition("## Conversation to Process")
    known, new = _NUMBERED_FACT.findall(before), _NUMBERED_FACT.findall(turns)
    answer = {"facts": [{"take": each} for each in new], "history": new[-5:], "summary": [*known, *new]}
    return ModelSaid(json.dumps(answer))


def _answered(text: str) -> int:
    return sum(token(n) in text for n in range(TURNS // 2) if n % 2)
