"""Documents: files that people edit and the host writes, as lines of versions in the journal.

Imports: storage and below. Read in this order: `merge` (three texts made one), `versions` (what a file held, and which
of it a save was made from), `store` (documents in use: changed, rendered, saved, recovered), `projections` (all files
that the journal may be ahead of).
"""
