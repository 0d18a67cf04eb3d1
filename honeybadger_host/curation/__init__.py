"""Tidies memory: a model chooses sentences and entries by number, code copies the bytes.

May import: search, memory, journal, files, text, errors, and the wire models. The pure modules (all but the jobs in
the background) take the clock, ids and all that they read as arguments.

Reading order, which is that of one pass: `runner` and `consolidations` (what is due), `consolidation` (the question
and what becomes of its answer), `said` (sentences and their copies), `passes` and `asking` (asked, booked,
written), `proposal` and `proposal_files`, `gates`, `applying`, `reverting`. The other passes: `dreams` with `dream`,
`candidates`, `snapshot` and `preferences`; `enrichment`. What they share: `notes`, `directives`.
"""
