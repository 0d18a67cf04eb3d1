"""Starts the hook program: `python3 -IS hook.py TOOL`, where TOOL is claude-code, codex or gemini; event on stdin."""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # the copy of `program` below it
    from honeybadger_agent.hooks.program.events import main

    main()
    os._exit(0)  # nothing is left to do, and nothing can fail any more
