"""One program for the hooks of coding tools: it keeps the turns of a session, and recalls memory at each prompt.

Reading order: `hook` (the program: standard library only, so that it starts in milliseconds), `tools` (the coding tools
and the state of their hooks). `cli/install.py` installs it.
"""
