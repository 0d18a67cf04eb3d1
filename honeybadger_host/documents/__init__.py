"""Documents: files that people edit and the host writes, as lines of versions in the journal.

Imports: storage and below. Read in this order: `merge` and `merge_json` (three texts or objects made one), `versions`
(what a file held, and which of it a save was made from), `history` (its text at any moment, and whose each line is),
`document` and `in_use` (the newest versions and the marks of
their files), `rendering` (files are written, and recovered), `unread` (notes that a save took out) and
`saves` (what people saved becomes a version), `store`
(all of it, for others), `projections` (all files that the journal may be ahead of).
"""
