"""The Markdown files of a group: read whole, divided into notes, and cut to a budget.

Reading order: `notes`, `archive` and `summary_parts` (the parts of a file), `notes_together` and `budget` (the part
that goes into a context), `group_files` and `large_notes` (reading).
"""
