"""Makes the context that a model reads before it answers: files, recalled lines and conversation, in one budget.

May import: search, memory, journal, files, text, errors, settings.

Reading order: `text` (parts in a budget), `parts`; `recollections`, `subject`, `recall`; `maker`, which puts
them together.
"""
