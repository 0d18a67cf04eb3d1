"""Shell completion of `honeybadger-agent`: its commands, and the options of each."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")
_BASH: Final = """\
_honeybadger_agent() {{
  local words=""
  if [ "$COMP_CWORD" = 1 ]; then words="{commands}"; else case "${{COMP_WORDS[1]}}" in
{cases}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _honeybadger_agent honeybadger-agent
"""


def completion(shell: str, commands: Mapping[str, ArgumentParser]) -> str:
    """Return the script for one of `SHELLS`, for `eval "$(honeybadger-agent --show-completion bash)"`."""
    options = {
        name: sorted(option for action in parser._actions for option in action.option_strings if option[1] == "-")
        for name, parser in commands.items()
    }
    if shell == "fish":
        begin = f"complete -c honeybadger-agent -n 'not __fish_seen_subcommand_from {' '.join(options)}' -f -a"
        lines = [f"{begin} {name} -d {_quoted(parser.description or '')}" for name, parser in commands.items()]
        for name, known in options.items():
            seen = f"complete -c honeybadger-agent -n '__fish_seen_subcommand_from {name}'"
            lines += [f"{seen} -l {option.removeprefix('--')}" for option in known]
        return "\n".join(lines) + "\n"
    cases = "\n".join(f'    {name}) words="{" ".join(known)}" ;;' for name, known in options.items())
    script = _BASH.format(commands=" ".join(options), cases=cases)
    return script if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{script}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"
