"""The Markdown files of a group: read without a tear, divided into notes, and cut to what fits a budget.

Reading order: `notes`, `archive` and `summary_parts` (what a file holds), `group_files` with `large_notes` (how it is
read), `notes_together` and `budget` (what of it goes into a context).
"""
