"""People's sentences: found in any language, picked by number, copied byte for byte with speaker and time. Pure.

A sentence is a span of its turn, so that a copy has the bytes of the turn. A *pick* is a turn with the numbers of some
of its sentences. `uncopied` tells the copied bytes from the speakers and times around them.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from honeybadger_host.curation.proposal import Evidence
from honeybadger_host.text.neutralise import estimate_tokens, neutralise, one_line
from honeybadger_host.text.turn import Turn

Turns: TypeAlias = Mapping[tuple[str, int], Turn]  # (session, number) -> turn

# Code; a number, a letter, a title (`Dr.`) or an abbreviation (`e.g.`) with its full stop, which ends no sentence (one
# that is too long is better than half of one); group 1: the end of a sentence.
_ENDS = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`"
    r"|(?<![^\s(\"'“„«])(?:\d{1,3}|\w|[B-DF-HJ-NP-TV-XZ][b-df-hj-np-tv-xz]{1,3}|\w+\.\w+)\.(?=\s)"
    r"|([.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[」』”’）]*|\n)",
    re.DOTALL,
)

# Words of the minutes, about 700 estimated tokens (docs/curation.md); two Chinese characters count as one.
MAX_MINUTES_WORDS = 500
_SHARE_OF_A_TURN = 4  # a turn takes at most a quarter of the minutes: a pasted log leaves room for others
_WHOLE_TURN = 400  # characters of a turn that is copied whole, so that `it` and `there` keep their meaning
_SHORT_TURN = 40  # a turn with fewer characters, such as `Yes, do that.`, is copied with the question before it
_MAX_QUOTE = 2_000  # characters of one quote, so that a pasted log does not become a note
# Words that are added for the time and the speaker of a chosen sentence: without them forty short Japanese sentences
# have 1.3 times the characters of people's newest turns, with them 1.06 times (`python -m bench.survival`).
_HEAD_WORDS = 4
CUT = " […]"
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_REF = re.compile(r"(?:([^\s#]+)#)?(\d{1,15})(?:\.(\d{1,5})(?:\s*[-–]\s*(?:\2\.)?(\d{1,5}))?)?")
_PREFIX = re.compile(r"^(?:\[\d{4}-\d\d-\d\d \d\d:\d\d\] [^\n]{1,160}?: |> [^\n]{1,160}?: )")
_PLACE = re.compile(r"\([^\s#()]+#\d+\)")


@lru_cache(maxsize=1024)
def sentences_of(text: str) -> Sequence[tuple[int, int]]:
    """Return (begin, end) of each sentence of a text, without white space around it, in order.

    A sentence ends after a full stop, a question or exclamation mark (also of full width), and at the end of a line,
    but never within a number, an address or code.
    """
    ends = [found.end() for found in _ENDS.finditer(text) if found[1] is not None]
    spans: list[tuple[int, int]] = []
    for begin, end in pairwise([0, *ends, len(text)]):
        said = text[begin:end]
        if said.strip():
            spans.append((end - len(said.lstrip()), begin + len(said.rstrip())))
    return tuple(spans)


def runs_of(text: str, sentences: Iterable[int]) -> list[str]:
    """Return each run of adjacent sentences of a text, byte for byte. `sentences`: numbers from 0, in order."""
    spans = sentences_of(text)
    runs: list[list[int]] = []
    for number in sentences:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [text[spans[run[0]][0] : spans[run[-1]][1]] for run in runs]


# ------------------------------------------------------------------------------------------------------------- choosing


def _as_refs(value: object) -> object:
    """Return a model's references as texts: `12`, `"12.3-5, 14"` and `["12.3", 14]` are all accepted."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return tuple(part.strip() for each in values for part in str(each).split(",") if part.strip())


# A model's references: numbers of turns, of sentences, and ranges of sentences.
Refs: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_as_refs)]


@dataclass(frozen=True)
class Pick:
    """Sentences of a turn, by their numbers from 0, in order; at least one."""

    session: str
    turn: Turn
    sentences: tuple[int, ...]

    def evidence(self) -> list[Evidence]:
        """Return the runs as quotes, with speaker and time."""
        return [
            Evidence(
                session=self.session,
                turn=self.turn.number,
                quote=run[:_MAX_QUOTE],
                by=speaker_of(self.turn),
                at=self.turn.at,
                is_cut=len(run) > _MAX_QUOTE,
            )
            for run in runs_of(self.turn.content, self.sentences)
        ]


def whole(session: str, turn: Turn) -> Pick:
    """Return a pick of all sentences of a turn that is not blank."""
    return Pick(session, turn, tuple(range(len(sentences_of(turn.content)))))


def picked(refs: Iterable[str], turns: Turns, session: str = "") -> list[Pick]:
    """Return a pick for each turn that refs name, in the order of the turns; unknown refs are left out.

    Args:
        session: the session of refs that name none.
    """
    found: dict[tuple[str, int], set[int]] = {}
    for ref in refs:
        match = _REF.fullmatch(ref)
        place = (match[1] or session, int(match[2])) if match else ("", 0)
        if match is None or place not in turns:
            continue
        count = len(sentences_of(turns[place].content))
        first = int(match[3] or 1)
        last = int(match[4] or match[3] or count)
        if 1 <= first <= last <= count:
            found.setdefault(place, set()).update(range(first - 1, last))
    picks = (Pick(place[0], turns[place], tuple(sorted(chosen))) for place, chosen in found.items())
    return sorted(picks, key=lambda pick: (pick.turn.at, pick.session, pick.turn.number))


def numbered_turn(turn: Turn, place: str, *, is_person: bool) -> str:
    """Return a turn for a model: `[2026-05-07 18:03] USER [tools: a, b]: ann`, then its sentences.

    Args:
        place: prefix of the numbers; only people's sentences are numbered, so that only they can be chosen.
    Source: AB2.
    """
    tools = f" [tools: {', '.join(turn.tools_used)}]" if turn.tools_used else ""
    head = f"[{turn.at.astimezone(UTC):%Y-%m-%d %H:%M}] {turn.role.upper()}{tools}: {speaker_of(turn)}\n"
    said = (turn.content[begin:end].replace("\n", "\n    ") for begin, end in sentences_of(turn.content))
    return head + "".join(f"  {f'{place}.{n} ' if is_person else ''}{text}\n" for n, text in enumerate(said, 1))


def numbered_turns(turns: Turns) -> list[str]:
    """Return people's turns for a model, oldest first; their numbers include the session: `main#12.3`."""
    ordered = sorted(turns.items(), key=lambda each: (each[1].at, each[0]))
    return [numbered_turn(turn, f"{session}#{number}", is_person=True) for (session, number), turn in ordered]


def sections_text(sections: Mapping[str, Iterable[str]]) -> str:
    """Return headings with their lines, for a model."""
    return "\n".join(f"## {title}\n{''.join(lines) or '(none)' + chr(10)}" for title, lines in sections.items())


def newest_lines(lines: Sequence[str], max_tokens: int) -> Sequence[str]:
    """Return the last lines that fit a budget, oldest first."""
    sizes = accumulate(estimate_tokens(line) for line in reversed(lines))
    return lines[len(lines) - sum(size <= max_tokens for size in sizes) :]


def speaker_of(turn: Turn) -> str:
    """Return the speaker on one line; the sender of the request if the turn names only a role."""
    return turn.by if turn.sender in ("", turn.role) else one_line(turn.shown_name).text[:120]


# ------------------------------------------------------------------------------------------------------------- a fact


def fact(pick: Pick, before: Turn | None) -> tuple[str, list[Evidence]]:
    """Return the text of a note or an entry that copies a person's words, and its quotes.

    A short turn is copied whole; of a longer one the chosen sentences, each with the sentence before it. A very short
    turn, such as `yes, do that`, also gets the question that it answers.

    Args:
        before: the previous turn of the session.
    """
    turn = pick.turn
    if len(turn.content.strip()) <= _WHOLE_TURN:
        pick = whole(pick.session, turn)
    else:
        chosen = {near for number in pick.sentences for near in (number - 1, number) if near >= 0}
        pick = Pick(pick.session, turn, tuple(sorted(chosen)))
    evidence = pick.evidence()
    text = _joined(evidence)
    if before is not None and before.role == "assistant" and len(turn.content.strip()) < _SHORT_TURN:
        question, asker = _question(before.content), speaker_of(before)
        if asker == speaker_of(turn):  # one program recorded both
            asker = before.role
        text += f"\n> {asker} asked: {question}" if question else ""
    return text, evidence


def _question(text: str) -> str | None:
    """Return the last question of a text on one line, or None if there is none."""
    said = [text[begin:end] for begin, end in sentences_of(text)]
    asked = [sentence for sentence in said if sentence.rstrip("\"'”’»)]」』）").endswith(("?", "？"))]
    return one_line(asked[-1][:_WHOLE_TURN]).text if asked else None


def words_of_fact(text: str) -> str:
    """Return the text of a fact without the lines below it, which have the question it answers and its place."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if not line.startswith("> ") and not _PLACE.fullmatch(line)).strip()


def earlier(author: str, text: str) -> str:
    """Return the line of a fact that quotes an earlier text, which the fact changes."""
    words = one_line(words_of_fact(text).partition("\n")[0]).text
    return f"> earlier, {author}: {words[:_WHOLE_TURN]}"


# ---------------------------------------------------------------------------------------------------------- the minutes


def minutes(evidence: Iterable[Evidence]) -> str:
    """Return quotes as minutes, in the order given, a line for each turn: `[2026-05-07 18:03] ann: I moved.`

    Further lines of a turn are indented by four spaces: with fewer, `## Notes` would be a heading.
    """
    lines = []
    for _, group in groupby(evidence, key=lambda each: (each.session, each.turn)):
        said = [*group]
        at = "" if said[0].at is None else f"[{said[0].at.astimezone(UTC):%Y-%m-%d %H:%M}] "
        lines.append(f"{at}{said[0].by}: {neutralise(_joined(said)).text}".replace("\n", "\n    "))
    return "\n".join(lines)


def chosen_minutes(picks: Sequence[Pick], fill: Sequence[tuple[str, Turn]] = ()) -> list[Evidence]:
    """Return quotes for the minutes, in the order of the turns, up to `MAX_MINUTES_WORDS`.

    Args:
        picks: chosen sentences in the order of the turns; the newest are kept if there is not enough room.
        fill: turns of people, oldest first; the newest fill the remaining room, and long ones are cut.
    """
    room, share = MAX_MINUTES_WORDS, MAX_MINUTES_WORDS // _SHARE_OF_A_TURN
    kept: list[list[Evidence]] = []
    for pick in reversed(picks):
        evidence = pick.evidence()
        size = _size(evidence) + _HEAD_WORDS
        if size <= room:
            kept.append(evidence)
            room -= size
    there = {(pick.session, pick.turn.number) for pick in picks}
    for session, turn in reversed(fill):
        if (session, turn.number) in there or not turn.content.strip():
            continue
        evidence = _beginning(whole(session, turn), min(room, share))
        if evidence:
            kept.append(evidence)
            room -= _size(evidence)
        elif room < share:  # else only its first sentence is too long, and earlier turns may fit
            break
    kept.sort(key=lambda each: (each[0].at, each[0].session, each[0].turn))
    return [each for evidence in kept for each in evidence]


def _beginning(pick: Pick, room: int) -> list[Evidence]:
    """Return the first sentences of a turn that fit, marked if there are more."""
    evidence = pick.evidence()
    for count in range(len(pick.sentences) - 1, 0, -1):
        if _size(evidence) <= room:
            break
        *first, last = Pick(pick.session, pick.turn, pick.sentences[:count]).evidence()
        evidence = [*first, last.model_copy(update={"is_cut": True})]
    return evidence if _size(evidence) <= room else []


def _size(evidence: Iterable[Evidence]) -> int:
    """Return the number of words in quotes; see `MAX_MINUTES_WORDS`."""
    return sum(len(each.quote.split()) + len(_CJK.findall(each.quote)) // 2 for each in evidence)


def _joined(evidence: Sequence[Evidence]) -> str:
    """Return the quotes of a turn as one text, marked where something is left out."""
    return f"{CUT} ".join(each.quote for each in evidence) + (CUT if evidence[-1].is_cut else "")


# ----------------------------------------------------------------------------------------------------- is it a copy?


def uncopied(text: str, said: Collection[str], around: Collection[str] | None = None) -> list[str]:
    """Return the parts of a text that are no copies, byte for byte; none if all of it is copied.

    Speakers, times and places are not compared.

    Args:
        said: the texts that its lines may be copied from.
        around: further texts that its quotations (lines that begin with `> `) may be copied from; None: quotations are
            not compared.
    """
    clean = [*said, *(neutralise(each).text for each in said)]
    missing: list[str] = []
    for line in map(str.strip, text.splitlines()):
        body = _PREFIX.sub("", line, count=1)
        is_quotation = line.startswith("> ")
        sources = [*clean, *(one_line(each).text for each in around or ())] if is_quotation else clean
        if not _PLACE.fullmatch(body) and not (is_quotation and around is None):
            parts = (part.strip() for part in body.split(CUT.strip()))
            missing += [part for part in parts if not any(part in source for source in sources)]
    return missing
