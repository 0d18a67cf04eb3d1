"""Scheduled tasks and their times, messages to people and where they are pushed.

May import: memory, journal, files, text, errors, settings. `ops.scheduler` runs the tasks.

Reading order: `times`, `due`; `task_files`, `task_states`; `messages`, `arrivals`, `push`.
"""
