"""The offline model: no network, the same answer to the same question. It saves and it searches, and says what it is.

It is what a host has before a model is configured: enough to show the loop from a message to memory and back.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from honeybadger_agent.models.model import Message, ModelSaid, ToolAnswer, ToolCall, ToolsAnswered, ToolSpec, UserSaid
from honeybadger_agent.turn.prose import WEAK

NAME: Final = "offline"
_MOST_HITS: Final = 3
_MAX_QUERY_CHARACTERS: Final = 1000


class OfflineModel:
    """Saves what it is asked to remember, quotes what it finds, and says so where it cannot do more."""

    name = NAME

    async def answer(
        self,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        on_text: Callable[[str], Awaitable[None]],
    ) -> ModelSaid:
        said = reply(system, messages, {tool.name for tool in tools})
        for line in said.text.splitlines(keepends=True):
            await on_text(line)
        return said

    async def aclose(self) -> None:
        """Nothing is held."""


def reply(system: str, messages: Sequence[Message], tools: set[str]) -> ModelSaid:
    """Return what the offline model answers: first a call of a tool where one helps, then a text about its result."""
    asked = next((message.text for message in reversed(messages) if isinstance(message, UserSaid)), "")
    asked = asked.encode("utf-8", "replace").decode()  # half of a pair, which no JSON takes
    speaker, asked = _split_speaker(asked)
    words = _GERMAN if _is_german(asked) else _ENGLISH
    if messages and isinstance(messages[-1], ToolsAnswered):
        return ModelSaid(_about(messages[-1].answers, asked, system, words))
    fact = fact_in(asked)
    if fact is not None:
        saver = next((name for name in ("update_memory", "save_memory") if name in tools), None)
        return ModelSaid(words.no_saving) if saver is None else _calling((saver, {"content": as_note(fact, speaker)}))
    if not is_question(asked):
        return ModelSaid(_beyond(system, words))
    if "search_memory" not in tools:
        return ModelSaid(words.no_searching)
    query = asked.strip()[:_MAX_QUERY_CHARACTERS]
    return _calling(
        *(("search_memory", {"query": query, "scope": scope, "limit": 8}) for scope in ("notes", "entries", "turns"))
    )


def _split_speaker(text: str) -> tuple[str, str]:
    """Return who speaks and what is said: a message of somebody else than `user` begins with `[name]: `."""
    found = _SPEAKER.match(text)
    return (found[1], text[found.end() :]) if found else ("User", text)


_SPEAKER: Final = re.compile(r"\[([^\[\]\n]{1,80})\]: ")


def _calling(*calls: tuple[str, Mapping[str, object]]) -> ModelSaid:
    return ModelSaid(
        "",
        tuple(
            ToolCall(f"{NAME}-{number}", name, orjson.dumps(arguments).decode())
            for number, (name, arguments) in enumerate(calls, 1)
        ),
    )


# ------------------------------------------------------------------------------------------------- what is to be kept


@dataclass(frozen=True, slots=True)
class Fact:
    """What a user wants remembered.

    Args:
        words: the user's own.
        is_english: else it is not put into the third person.
    """

    words: str
    is_english: bool


_POLITE: Final = (
    r"(?:(?:please|pls|hey|ok|okay|and|also|bitte|und)[,!]?_+|(?:can|could|would|will) you (?:please )?|"
    r"(?:kannst|könntest) du (?:bitte )?)*"
)


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern in which `_` is white space, of a bounded length: a long run of it must not cost its square."""
    return re.compile(text.replace("_+", r"\s{1,20}").replace("_*", r"\s{0,20}"), re.IGNORECASE | re.DOTALL)


_ENGLISH_ASKING: Final = _pattern(
    rf"(?:^|[.!?;:,]_+|\n[ \t]{{0,20}}){_POLITE}"
    r"(?:(?:remember|(?:don['’]?t|do not|never) forget|keep in mind)(?:_+(?:that|this)\b)?(?:_*[:,]_*|_+)|"
    r"(?:note|(?:make a|take a|take) note|write down|save|memori[sz]e)(?:_+(?:that|down|this)\b(?:_*[:,])?|_*:)_*)"
    r"(?P<fact>\S.*)"
)
_GERMAN_ASKING: Final = _pattern(
    rf"(?:^|[.!?;:,]_+|\n[ \t]{{0,20}}){_POLITE}"
    r"(?:merken? (?:dir|sie sich)|merk dir|dir (?:bitte )?merken|vergiss nicht|vergessen sie nicht|notiere?(?: dir)?|"
    r"denke? daran|behalte?|erinnere? dich(?: daran)?)(?:,?_+bitte)?(?:_+das:)?_*[:,]?_+(?P<fact>\S.*)"
)
_ASKED_AFTER: Final = _pattern(
    r"(?P<fact>\S.*?)[.!,;]_+(?:please |bitte )?(?:remember|don['’]?t forget|save|note|merke? dir|vergiss) "
    r"(?:that|this|it|das|es)(?: bitte| nicht|,? please)?[.!]{0,3}"
)
_ASKING_WORD: Final = re.compile(
    r"(?:what|who|whom|whose|when|where|which|why|how|if|whether|was|wer|wann|wo|welche[rsnm]?|warum|wie|ob)\b",
    re.IGNORECASE,
)


def fact_in(text: str) -> Fact | None:
    """Return what the text asks to remember; None: it asks for nothing to be remembered.

    `remember that …`, `don't forget: …`, `note that …`, `merk dir, dass …`, `… . Please remember that.`
    """
    if found := _ASKED_AFTER.fullmatch(text.strip()):
        return Fact(found["fact"].strip(), is_english=not _is_german(text))
    for pattern, is_english in ((_ENGLISH_ASKING, True), (_GERMAN_ASKING, False)):
        for found in pattern.finditer(text):
            words = found["fact"].strip()
            explicit = re.search(r"\b(?:that|dass)\b|:", text[found.start() : found.start("fact")] + words[:5])
            is_a_question = words.endswith("?") and not explicit
            if not words.strip(".!?:,; ") or is_a_question or _ASKING_WORD.match(words):
                continue
            return Fact(words.rstrip("?").rstrip(), is_english)
    return None


_PERSONS: Final = re.compile(
    r"\b(?:i|i['’](?:m|ve|d|ll)|me|mine|myself|my|we|we['’]\w+|us|our|ours|you|you['’]\w+|your|yours|yourself)\b",
    re.IGNORECASE,
)


def _words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VERBS: Final = {
    "am": "is",
    "have": "has",
    "don't": "doesn't",
    "haven't": "hasn't",
    "study": "studies",
    "go": "goes",
    **{verb: verb for verb in _words_of("can can't cannot will won't must should would could may might was had")},
    **{
        verb: verb + "s"
        for verb in _words_of(
            "prefer like love want need use live work drink eat speak own play enjoy dislike read write drive run wear "
            "sleep travel hate take make think feel keep call"
        )
    },
}
_ADVERBS: Final = _words_of("always never usually often really also only generally strongly")
_SHORT: Final = {"i'm": "is", "i've": "has"}


def as_note(fact: Fact, speaker: str = "User") -> str:
    """Return the fact as a note that is understood without the conversation.

    In the third person where that is safe, as `User prefers dark mode`; else in the user's own words, said to be that.
    """
    words = fact.words.strip()
    if not fact.is_english:
        words = re.sub(r"^dass\s+", "", words, flags=re.IGNORECASE)
        return f'{"Der Nutzer" if speaker == "User" else speaker} sagte: "{words}"'
    words = re.sub(r"^(?:that|this)\b[:,]?\s+", "", words, flags=re.IGNORECASE) or words
    if not _PERSONS.search(words) and not words.lower().startswith("to "):
        return words[0].upper() + words[1:]
    return _third_person(words, speaker) or f'{speaker} said: "{words}"'


def _third_person(words: str, speaker: str) -> str | None:
    first, _, rest = words.partition(" ")
    first = first.lower().replace("’", "'")
    if first == "my" and rest and not _PERSONS.search(rest):
        return f"{speaker}'s {rest}"
    if first in _SHORT:
        said = [_SHORT[first]]
    elif first == "i":
        said = []
        while rest and (word := rest.partition(" ")[0]).lower() in _ADVERBS:
            said.append(word)
            rest = rest.partition(" ")[2]
        verb, _, rest = rest.partition(" ")
        if (known := _VERBS.get(verb.lower().replace("’", "'"))) is None:
            return None
        said.append(known)
    else:
        return None
    rest = re.sub(r"\bmy\b", "their", rest)
    if not rest.strip(" .!") or _PERSONS.search(rest):
        return None
    return " ".join([speaker, *said, rest])


# ------------------------------------------------------------------------------------------------------ what is asked

_QUESTION: Final = re.compile(
    r"(?:what|who|whom|whose|when|where|which|why|how|do|does|did|is|are|was|were|can|could|would|will|should|have|has|"
    r"tell me|show me|recall|search|find|was|wer|wen|wem|wann|wo|wohin|woher|welche[rsnm]?|warum|wieso|wie|kennst|"
    r"weißt|hast|habe|ist|sind|kann|kannst|mag|suche?|finde|sag mir|erzähl)\b",
    re.IGNORECASE,
)


def is_question(text: str) -> bool:
    """Return whether the text asks for something that may be in memory."""
    stripped = text.strip()
    if not any(letter.isalnum() for letter in stripped):
        return False
    return stripped.endswith(("?", "？")) or _QUESTION.match(stripped) is not None


_GERMAN_WORDS: Final = _words_of(
    "ich mir mich dir dich du dass nicht bitte und wie wer wo wann warum welche welcher welches ist der das ein eine "
    "einen mein meine meinen mag habe hast merk merke vergiss hallo danke für auf mit von"
)
_ENGLISH_WORDS: Final = _words_of(
    "i me my you your that not please and how who where when why which is the a an do does did what have has remember "
    "hello thanks for on with of to in it"
)


def _is_german(text: str) -> bool:
    words = re.findall(r"\w+", text.lower())
    german = sum(word in _GERMAN_WORDS for word in words) + sum(letter in "äöüß" for letter in text.lower())
    return german > sum(word in _ENGLISH_WORDS for word in words)


# ----------------------------------------------------------------------------------------------------- what is answered


@dataclass(frozen=True, slots=True)
class _Words:
    """What is said, in one language."""

    saved: str
    not_saved: str
    found: str
    nothing: str
    not_searched: str
    no_saving: str
    no_searching: str
    what_i_am: str
    beyond: str


_ENGLISH: Final = _Words(
    saved="I saved this: {}",
    not_saved="I could not save this: {}",
    found="This is what I remember:",
    nothing="I remember nothing about that.",
    not_searched="I could not search: {}",
    no_saving="I may not save anything here: this agent has neither update_memory nor save_memory.",
    no_searching="I may not search here: this agent has no search_memory.",
    what_i_am=(
        "I am the offline model: I save what you ask me to remember (“remember that …”), answer questions by quoting "
        "what was saved and said, and can do no more. For a model that thinks, configure a model: `[model]` in "
        "config/honeybadger.toml."
    ),
    beyond="That is more than I can do; I only save (“remember that …”) and search.",
)
_GERMAN: Final = _Words(
    saved="Das habe ich mir gemerkt: {}",
    not_saved="Das konnte ich nicht speichern: {}",
    found="Daran erinnere ich mich:",
    nothing="Dazu weiß ich nichts.",
    not_searched="Ich konnte nicht suchen: {}",
    no_saving="Ich darf hier nichts speichern: dieser Agent hat weder update_memory noch save_memory.",
    no_searching="Ich darf hier nicht suchen: dieser Agent hat kein search_memory.",
    what_i_am=(
        "Ich bin das Offline-Modell (offline model): Ich speichere, was ich mir merken soll („merk dir, dass …“), "
        "beantworte Fragen mit Zitaten aus dem, was gespeichert und gesagt wurde, und kann nicht mehr. Für ein Modell, "
        "das denkt, ein Modell einstellen: `[model]` in config/honeybadger.toml."
    ),
    beyond="Das kann ich nicht; ich speichere nur („merk dir, dass …“) und suche.",
)
_OWN_WORDS: Final = tuple(
    start.partition("{}")[0].strip()
    for words in (_ENGLISH, _GERMAN)
    for start in (words.saved, words.found, words.nothing, words.what_i_am, words.beyond)
)


def _beyond(system: str, words: _Words) -> str:
    """Return what the model is, once in a conversation; later in short."""
    return words.beyond if words.what_i_am in system else words.what_i_am


def _about(answers: Sequence[ToolAnswer], asked: str, system: str, words: _Words) -> str:
    if not answers:
        return _beyond(system, words)
    if not any(answer.call.name == "search_memory" for answer in answers):
        answer = answers[0]
        if not answer.ok:
            return words.not_saved.format(answer.content)
        content = _content_of(answer.call)
        is_as_said = content != "" and "Made harmless" not in answer.content  # else it may hold a credential
        return words.saved.format(content if is_as_said else answer.summary)
    hits = list(_quotes(answers, asked))
    if hits:
        return "\n".join([words.found, *hits])
    if all(not answer.ok for answer in answers):
        return words.not_searched.format(answers[0].content)
    return f"{words.nothing} {_beyond(system, words)}"


def _content_of(call: ToolCall) -> str:
    try:
        arguments = orjson.loads(call.arguments)
    except ValueError:
        return ""
    content = arguments.get("content") if isinstance(arguments, dict) else None
    return content if isinstance(content, str) else ""


_HIT: Final = re.compile(r"\[(?P<id>[^\]]*)\] \((?P<about>[^)]*)\) (?P<text>.*)")


def _quotes(answers: Sequence[ToolAnswer], asked: str) -> Iterator[str]:
    """Yield a row for each hit worth quoting: of notes and entries first; of what was said only without those.

    No weak match; not the question itself, which may stand in the log already, nor what this model answered before.
    """
    count = 0
    for answer in answers:
        is_said = b'"turns"' in answer.call.arguments.encode()
        if not answer.ok or (is_said and count):
            continue
        for line in answer.content.splitlines():
            if count == _MOST_HITS * (1 if is_said else 2):
                return
            if (hit := _HIT.fullmatch(line)) is None or hit["about"].endswith(WEAK):
                continue
            text = hit["text"].strip().removeprefix("- ")  # a note of one line is a list item
            if is_said and (_same(text, asked) or text.startswith(_OWN_WORDS) or is_question(text)):
                continue
            count += 1
            yield f"- {text} [{hit['id']}] ({hit['about']})"


def _same(text: str, other: str) -> bool:
    return " ".join(text.split()).casefold() == " ".join(other.split()).casefold()
