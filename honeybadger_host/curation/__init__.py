"""Tidies memory: a model chooses sentences and entries by number, code copies the bytes.

May import everything below it in the order of docs/architecture.md. The pure modules take the clock, ids and everything
they read as arguments.

Reading order, which is that of one pass: `runner` (the due jobs), `consolidation` (the turns, the question, and the
operations of its answer), `said` (sentences and their copies), `passes` and `asking` (what is read, the model is asked,
the cost booked, the proposal written), `proposal` and `proposal_files`, `gates`, `applying`. The other passes: `dreams`
with `candidates`; `enrichment`.
"""
