"""Scheduled tasks and their times, messages to people and where they are pushed.

May import: handler_kinds, memory, journal, files, text, errors, settings.

Reading order: `times`, `due`; `task_files`, `task_states`, `runs`, `scheduler`; `messages`, `arrivals`, `push`.
"""
