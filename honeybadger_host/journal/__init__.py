"""The journal: changes and receipts in one commit, and the files that changes write.

May import: files, text, errors. It does not know what a memory means.

Reading order: `changes` and `unit_of_work`; `journal` with `schema`, `connection`, `opening`, `folding`, `digests`,
`position`, `reader` and `transfer`; `atomic_files`, `edits`, `line_hunks` and `undoable`; `tombstones` and
`forgetting`.
"""
