"""One program for the hooks of coding tools: it keeps what was said, and recalls it at each prompt.

Standard library only, so that a hook starts in milliseconds. Reading order: `transcript` (what a person and the model
said), `kept` (which turns have been handed to the host), `hook` (the program), `claude_code` (install and uninstall).
"""
