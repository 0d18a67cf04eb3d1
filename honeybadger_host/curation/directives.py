"""The prompts of curation: built in, or a file in `config/directives/` instead (RB12).

A file is checked when it is read. A broken file is logged, and the built-in prompt is used until it is mended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import structlog

from honeybadger_agent.wire.refusals import nearest
from honeybadger_host.errors import FileProblem
from honeybadger_host.files.safe_files import names_in
from honeybadger_host.memory.markdown.group_files import GroupFiles

log = structlog.get_logger()

DIRECTIVES_FOLDER: Final = "config/directives"
DirectiveName: TypeAlias = Literal["consolidation", "prose", "enrichment", "dream", "pref-dream", "memory-rules"]
NAMES: Final[tuple[DirectiveName, ...]] = get_args(DirectiveName)
RULES: Final = "{memory-rules}"  # in a prompt: the rules for what is remembered go there
# Members of an answer that the host reads: a prompt must name at least one, or the answer is useless.
_ANSWERED: Final[Mapping[str, tuple[str, ...]]] = {
    "consolidation": ("facts", "history_entry"),
    "enrichment": ("sentences",),
    "dream": ("join", "retire", "refine", "anti_patterns"),
    "pref-dream": ("preferences",),
}


@dataclass(frozen=True, slots=True)
class Directives:
    """The present prompts of a home. Any thread."""

    _files: GroupFiles

    def read(self, name: DirectiveName) -> str:
        """Return a prompt with its rules: from its file if that is good, else the built-in one."""
        return self._one(name).replace(RULES, self._one("memory-rules"))

    def _one(self, name: DirectiveName) -> str:
        try:
            return _own_text(self._files, name) or built_in(name)
        except FileProblem as problem:
            now_what = "mend or remove it; until then the built-in prompt is used"
            log.error("directive.refused", file=problem.file, why=problem.message, now_what=now_what)
            return built_in(name)


def directive_file(name: DirectiveName) -> str:
    """Return the file that replaces a built-in prompt, below the home folder."""
    return f"{DIRECTIVES_FOLDER}/{name}.md"


@cache
def built_in(name: DirectiveName) -> str:
    """Return the prompt that comes with the host."""
    return files(__package__).joinpath("prompts", f"{name}.md").read_text("utf-8").strip()


def check_directives(home: Path) -> Iterator[tuple[str, str]]:
    """Yield (file, its problem and the remedy) for `config/directives/`."""
    group_files = GroupFiles(home)
    for name in NAMES:
        try:
            _own_text(group_files, name)
        except FileProblem as problem:
            yield problem.file, problem.message
    known = [f"{name}.md" for name in NAMES]
    for file in sorted(names_in(home / DIRECTIVES_FOLDER)):
        if not file.startswith(".") and file not in known:
            yield f"{DIRECTIVES_FOLDER}/{file}", f"is not read: {nearest(file, known)}"


def _own_text(group_files: GroupFiles, name: DirectiveName) -> str | None:
    """Return the text of a prompt's file, or None if there is no file. Raises FileProblem."""
    file = directive_file(name)
    found = group_files.read(file)
    if found is None:
        return None
    if (why := problem_of(name, found.clean)) is not None:
        raise FileProblem(file, why)
    return found.clean.strip()


def problem_of(name: DirectiveName, text: str) -> str | None:
    """Return the problem of a directive's text and the remedy, or None if the text is good."""
    if not text.strip():
        return "is blank: write the prompt, or remove the file"
    wanted = _ANSWERED.get(name, ())
    if wanted and not any(member in text for member in wanted):
        return f"does not ask for `{wanted[0]}`, by which the answer is read: say how the JSON of the answer looks"
    return None
