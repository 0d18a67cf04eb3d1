"""Makes the context that a model reads before it answers: files, recalled lines and conversation, in one budget.

May import: search, memory, storage, text, errors, settings.

Reading order: `text` (parts in a budget), `parts`, `recollections`, `recall`, `maker` (puts them together), `past`.
"""
