"""Names and labels of entries: categories, tags, titles, names, ids."""

import re
import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from honeybadger_agent.mailbox import NAME
from honeybadger_agent.wire.refusals import shaped

MAX_TAGS = 32
MAX_TAG_CHARACTERS = 64
MAX_TITLE_CHARACTERS = 200
MAX_NAME_CHARACTERS = 128
# Categories, also as folders; match with `fullmatch`.
CATEGORY = re.compile(r"[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9_-]{1,64}){0,7}")
MAX_CATEGORY_CHARACTERS = 200
GENERAL = "general"  # the category of entries without one (RB4)
# Beginning of categories, also in capital letters, with programs' documents: nothing recalls, searches or curates them.
STORE = "store/"
ENTRY_ID = NAME  # the host makes ids of 12 characters; a person who writes a file may choose
# Unicode categories of invisible characters and line ends; joiners belong to some scripts and emoji.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def is_store(category: str) -> bool:
    """Return whether the entries of a category are programs' documents, see `STORE`."""
    return category[: len(STORE)].lower() == STORE


def is_name(text: str) -> bool:
    """Return whether an entry may have this name: any name that a file could have."""
    return (
        0 < len(text) <= MAX_NAME_CHARACTERS
        and text not in (".", "..")
        and text == text.strip()
        and not any(
            character in "/\\" or (unicodedata.category(character) in _HIDDEN and character not in "\u200c\u200d")
            for character in text
        )
    )


def _checked_name(value: str) -> str:
    if not is_name(value):
        raise PydanticCustomError(
            "must_be", "a name as a file has, as notes.md: one line without / and \\, not . or .."
        )
    return unicodedata.normalize("NFC", value)


Category = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_CATEGORY_CHARACTERS),
    shaped(
        CATEGORY.pattern,
        "names of A-Z a-z 0-9 - _ with / between them, as project-context/website: at most 8 deep and 64 characters "
        "each",
    ),
]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TAG_CHARACTERS)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS)]
Title = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TITLE_CHARACTERS)]
ToolName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
ToolsUsed = Annotated[list[ToolName], Field(max_length=64)]
EntryName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARACTERS), AfterValidator(_checked_name)
]
# An id as search shows it: of an entry its id, of a turn `session#number`, of a note `MEMORY.md#hash`.
FoundId = Annotated[
    str,
    shaped(
        rf"({ENTRY_ID.pattern}|[A-Za-z0-9._:-]{{1,105}}#[0-9a-f]{{1,20}}(-[0-9]{{1,9}})?)",
        "an id as search shows it, as k3v9x2m4q7p1, main#12 or MEMORY.md#4f0c21",
    ),
]
EntryId = Annotated[
    str, shaped(ENTRY_ID.pattern, "an id: 1-64 characters of A-Z a-z 0-9 _ -, as k3v9x2m4q7p1 or researcher")
]
