"""The journal: changes and receipts in one commit, and the files that changes write.

May import: files, text, errors. It does not know what a memory means.

Reading order: `changes`; `journal` with `schema`, `opening`, `folding`, `reader` and `transfer`; `edits` and
`line_hunks`; `forgetting`.
"""
