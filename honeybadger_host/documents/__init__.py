"""Documents: files that people edit and the host writes, as lines of versions in the journal.

Imports: journal, files and below. Read in this order: `merge` (three texts or objects made one), `versions` (earlier
texts of a file, the one that a save was made from, and notes that a save took out), `history` (its text at any moment,
the author of each line, and notes that leave, return or change), `in_use` (the newest versions and the marks of their
files), `rendering` (files are written and recovered), `saves` (a person's save becomes a version) and `projections`
(the documents of a home, and all files that the journal may be ahead of).
"""
