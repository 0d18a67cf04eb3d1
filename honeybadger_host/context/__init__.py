"""What a model is given before it answers: the parts of a context, what is recalled for a message, all in one budget.

May import: search, memory, storage, text, domain, errors, settings.

Reading order: `text` (parts in a budget), `parts`, `recollections`, `recall`, `maker` (puts them together), `past`.
"""
