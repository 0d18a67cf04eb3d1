"""The names that turns are shown under: nobody is shown under a name that is, or looks like, another's."""

import os
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

from honeybadger_agent.mailbox import OPERATOR, SYSTEM_SENDERS
from honeybadger_agent.wire import Refusal, Role
from honeybadger_host.errors import WorldFailed
from honeybadger_host.handler_kinds import Asked
from honeybadger_host.handlers.dependencies import Dependencies
from honeybadger_host.handlers.redaction import Texts
from honeybadger_host.text.neutralise import is_blank, one_line

_LOOK_ALIKES = {
    # Letter -> case-folded characters that look like it. Source: Unicode Technical Standard 39, confusables.
    "a": "аɑαᴀ",
    "b": "ьвʙƅ",
    "c": "сϲᴄↄ",
    "d": "ԁᴅđ",
    "e": "еҽєᴇεɛ",
    "f": "ꜰƒϝ",
    "g": "ɡցɢ",
    "h": "һհнʜ",
    "j": "јϳᴊ",
    "k": "κкᴋ",
    "l": "i1|!ıιіɩɪӏǀł",
    "m": "мᴍ",
    "n": "ոηпɴ",
    "o": "0οоօσøᴏ",
    "p": "рρᴘ",
    "q": "ԛզ",
    "r": "гʀ",
    "s": "5$ѕꜱ",
    "t": "тτᴛ",
    "u": "υսцᴜ",
    "v": "νѵᴠ",
    "w": "ԝաѡωᴡ",
    "x": "хχ",
    "y": "уүγʏ",
    "z": "ᴢƶ",
}
_TO_LETTERS = str.maketrans({look: letter for letter, looks in _LOOK_ALIKES.items() for look in looks})
_ROLES = get_args(Role)


def looks_of(name: str) -> str:
    """Return a key that names share if a reader cannot tell them apart: case, accents, spaces and signs are ignored."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold()).translate(_TO_LETTERS)
    letters = "".join(character for character in folded if character.isalnum())
    return letters.replace("rn", "m").replace("vv", "w")


def speaker_of(texts: Texts, sender: str | None, default: str, member: str = "payload.sender") -> str:
    """Return the name that a turn is shown under. Raises Refusal if it could forge another speaker's line.

    Args:
        member: the name's place in the request.
    """
    if sender is None:
        return default
    name = one_line(sender)
    if name.changed or is_blank(name.text) or "[" in name.text or "]" in name.text:
        raise Refusal("invalid", f"{member} must be one visible line without [ and ]", field=member)
    return texts.shown_name(member, name.text)


def senders_of(home: Path, group: str) -> list[str]:
    """Return the names of the inboxes of a group. Raises WorldFailed."""
    try:
        return os.listdir(home / "data" / "ipc" / group)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise WorldFailed(f"the senders of {group} cannot be listed: {error.strerror}") from error


def check_names(deps: Dependencies, asked: Asked, said: Mapping[str, tuple[str | None, str]]) -> None:
    """Raise Refusal (`forbidden`) if a name is somebody else's or looks like it. Reads the group's senders.

    Args:
        said: place in the request -> the shown name or None, and the role of its turn.
    """
    names = {member: name for member, (name, role) in said.items() if name not in (None, asked.sender, role)}
    taken = taken_names(deps, asked.group, asked.sender, names.values())
    for member, name in names.items():
        if name in taken:
            raise Refusal(
                "forbidden", f"{member} {name!r} {taken[name]}: choose a name that nobody else has", field=member
            )


def taken_names(deps: Dependencies, group: str, own: str, names: Iterable[str | None]) -> Mapping[str, str]:
    """Return name -> its owner, for the names that belong to somebody else. Reads the group's senders.

    Args:
        own: the folder of the sender who appends the turns.
    """
    wanted = {name: looks_of(name) for name in names if name is not None and name != own}
    if not wanted:
        return {}
    whose = {looks_of(name): f"is a name of the host, {name}" for name in (*SYSTEM_SENDERS, OPERATOR)}
    whose |= {looks_of(role): f"is the name of turns with the role {role}" for role in _ROLES}
    for agent in deps.agents.current.values():
        if agent.id != own:
            whose |= {looks_of(name): f"is the name of the agent {agent.id}" for name in (agent.id, agent.display_name)}
    for sender in senders_of(deps.home, group):
        if sender != own:
            whose[looks_of(sender)] = f"is the name of the sender {sender}"
    return {name: whose[looks] for name, looks in wanted.items() if looks in whose}
