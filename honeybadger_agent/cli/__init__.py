"""`honeybadger-agent`: an agent's memory for shells and for programs that start one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from honeybadger_agent import installed_version
from honeybadger_agent.cli.arguments import parser
from honeybadger_agent.cli.terminal import complain, prepare_process
from honeybadger_agent.errors import AgentError, ReplyTimeout, words_of
from honeybadger_agent.wording import as_typed


def main() -> NoReturn:
    """Run a command; an error of ours becomes one line and its exit code."""
    prepare_process()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins reads all installed packages
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what waits is taken back before
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    known = parser()
    options = vars(known.parse_args(arguments))
    if options["version"]:
        print(f"honeybadger-agent {installed_version()}")
        return 0
    if "command" not in options:
        known.error("the following arguments are required: COMMAND")
    names = options.pop("names")
    from honeybadger_agent.cli import commands  # a tenth of a second, mostly pydantic's

    try:
        done = commands.COMMANDS[options["command"]](options)
        sys.stdout.flush()
    except commands.UsageError as error:
        complain(f"{error}; see {known.prog} {options['command']} --help")
        return 2
    except AgentError as error:
        message = words_of(error)
        if isinstance(error, ReplyTimeout) and not error.is_query and "id" in options:
            message += f" (The same command with --id {error.request_id} is never applied twice.)"
        complain(message if options["command"] == "call" else as_typed(message, names))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the buffered output is written at the end
        if isinstance(error, BrokenPipeError):
            return 0  # its reader is gone
        complain(str(error))
        return 1
    return done or 0


if __name__ == "__main__":
    main()
