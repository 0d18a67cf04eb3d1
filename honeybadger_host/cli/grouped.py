"""The groups of commands in `--help`, and aliases of commands."""

from __future__ import annotations

from typing import Any, Final

import typer
from typer.core import TyperGroup

SECTIONS: Final = {
    "Serve": ("init", "run", "status", "logs", "doctor", "config", "web", "service"),
    "Look": ("groups", "notes", "context", "search", "log", "show", "blame", "diff", "why"),
    "Decide": ("review", "tasks", "stop-turn", "dead"),
    "Take back": ("undo", "rewind", "forget"),
    "Move": ("backup", "restore", "export", "import"),
    "Rare": ("consolidate", "dream", "sender", "cluster"),
}
ALIASES: Final = {"stop": "stop-turn", "dead-letters": "dead", "recall": "search"}


class GroupedCommands(TyperGroup):
    """Prints the commands under the titles of `SECTIONS`, and knows their aliases."""

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        width = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            rows = []
            for name in names:
                command = self.commands[name]
                rows.append((name.ljust(width), command.get_short_help_str(formatter.width - width - 6)))
            with formatter.section(title):
                formatter.write_dl(rows)
