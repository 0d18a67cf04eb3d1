"""Looks after what is remembered: a model chooses sentences and entries by number, code copies the bytes.

May import: search, memory, storage, text, domain, errors, and the wire models. What is pure here (all but the jobs in
the background) takes clock, ids and everything it looks at as arguments.

Reading order: `proposal` and `proposal_files`; `sentences` and `said` (what people said, by number, and its copies);
`gates`; `answers`; `directives`; `notes`, `consolidation`, `budgets`, `asking`, `applying` and `reverting`; `jobs`,
`passes` and `consolidating`; `candidates`, `snapshot`, `dream`, `preferences`, `dreaming` and `due_dreams`;
`enriching`; `runner`.
"""
