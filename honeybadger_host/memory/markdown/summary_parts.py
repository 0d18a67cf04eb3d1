"""summary.md as one part for each session, under a heading with the session's name. Pure.

All else in the file is people's text: the text above the first such heading, and headings that are not names of
consolidated sessions.
"""

import hashlib
import re
from collections.abc import Collection

_HEADING = "## "
_HEADINGS = re.compile(f"^(?={_HEADING})", re.MULTILINE)


def part_of(text: str, session: str) -> str | None:
    """Return the text of a session's part without its heading, or None if it has none."""
    found = (section.partition("\n")[2] for section in sections_of(text) if _name(section) == session)
    return next((body.strip("\n") for body in found), None)


def with_part(text: str, session: str, body: str | None) -> str:
    """Return the file with a new text in a session's part, which is added at the end; `body` None: without the part."""
    sections = sections_of(text)
    names = [_name(section) for section in sections]
    at = names.index(session) if session in names else len(sections)
    above, below = "".join(sections[:at]), without_parts("".join(sections[at:]), (session,))
    if body is None:
        return above + below
    part = f"{_HEADING}{session}\n\n{_kept_inside(body)}\n"
    if at == len(sections) and above:
        above = above.rstrip("\n") + "\n\n"
    return f"{above}{part}\n{below}" if below else above + part


def without_parts(text: str, sessions: Collection[str]) -> str:
    """Return the file without the parts of some sessions."""
    return "".join(section for section in sections_of(text) if _name(section) not in sessions)


def digest_of(body: str) -> str:
    """Return the SHA-256 of a part's words as the file has them: an editor that changes its layout changes nothing."""
    return hashlib.sha256(" ".join(_kept_inside(body).split()).encode(errors="surrogateescape")).hexdigest()


def _kept_inside(body: str) -> str:
    """Return a text in which no line is a heading, so that it stays one part."""
    lines = body.strip("\n").split("\n")
    return "\n".join(f"\\{line}" if line.startswith("#") else line for line in lines)


def sections_of(text: str) -> list[str]:
    """Return the text above the first heading, and each heading with its text; joined they are the whole text."""
    return [section for section in _HEADINGS.split(text) if section]


def _name(section: str) -> str | None:
    """Return the heading of a section, or None if it is the text above the first one."""
    first = section.partition("\n")[0]
    return first.removeprefix(_HEADING).strip() if first.startswith(_HEADING) else None
