"""What is durable: the journal, the files projected from it, and the home that holds both.

May import: text, domain, errors. It does not know what a memory means.

Reading order: `journal` with `journal_schema`, `journal_connection`, `journal_opening`, `journal_reader`,
`journal_position`, `journal_transfer`, `edits` and `line_hunks`; `unit_of_work`; `projections` with `appended`,
`appended_before`, `unsettled` and `unsynced`; `files`, `file_cache`, `lines_back`, `atomic_files`, `revised` and
`revised_files`; `tombstones` and `forgetting`; `home`.
"""
