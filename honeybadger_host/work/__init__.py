"""Scheduled tasks and their times, messages to people and where they are pushed.

May import everything below it in the order of docs/architecture.md.

Reading order: `times`; `task_files`, `runs`, `scheduler`; `messages`, `push`.
"""
