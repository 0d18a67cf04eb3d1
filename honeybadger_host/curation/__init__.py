"""Looks after what is remembered: a model chooses sentences and entries by number, code copies the bytes.

May import: search, memory, storage, text, errors, and the wire models. The pure modules (all but the jobs in
the background) take the clock, ids and all that they read as arguments.

Reading order: `proposal` and `proposal_files`; `sentences` and `said` (people's sentences and copies of them);
`gates`; `answers`; `directives`; `notes`, `consolidation`, `budgets`, `asking`, `applying` and `reverting`; `jobs`,
`passes` and `consolidating`; `candidates`, `snapshot`, `dream`, `preferences`, `dreaming` and `due_dreams`;
`enriching`; `runner`.
"""
