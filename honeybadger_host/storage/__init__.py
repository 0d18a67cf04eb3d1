"""Storage: the journal, files read and written safely, and the home that holds both.

May import: text, errors. It does not know what a memory means.

Reading order: `journal` with `journal_schema`, `journal_connection`, `journal_opening`, `journal_reader`,
`journal_position`, `journal_transfer`, `digests`, `edits`, `line_hunks` and `journal_folding`; `changes` and
`unit_of_work`; `files`, `unsynced`, `file_cache`, `lines_back`, `atomic_files` and `revised`; `tombstones` and
`forgetting`; `home` and `group_places`.
"""
