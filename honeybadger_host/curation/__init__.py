"""Looks after what is remembered: proposes typed operations, checks each by gates, and loses nothing.

May import: search, memory, storage, text, domain, errors, and the wire models. What is pure here (all but the jobs in
the background) takes clock, ids and everything it looks at as arguments.

Reading order: `proposal` and `proposal_files`; `ordinary`, `quantities` and `specifics` (what a text says), `meaning`
(how) and `evidence` (who said so); `gates`; `answers`; `extraction`, `candidates`, `anti_patterns`; `directives`;
`notes`, `consolidation`, `budgets`, `asking`, `applying` and `reverting`; `jobs`, `passes` and `consolidating`;
`snapshot`, `dream`, `preferences`, `dreaming` and `due_dreams`; `enriching`; `runner`.
"""
