"""What is durable: the journal, the files projected from it, and the home that holds both.

May import: text, domain, errors. It does not know what a memory means.

Reading order: `journal` with `journal_opening`, `journal_schema`, `journal_reader`, `journal_transfer`,
`edits` and `line_hunks`; `unit_of_work`; `projections` with `appended`, `unsettled` and `unsynced`; `files`,
`file_cache`, `lines_back`, `atomic_files` and `revised`; `tombstones` and `forgetting`; `home`.
"""
