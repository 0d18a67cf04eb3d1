"""Groups out of a home and into another, and what other programs remember into a group.

May import: ops, spool, curation, search, memory, storage, text, errors, settings. Only commands and the start
of a host use it.

Reading order: `places` and `exported` (what an export looks like), `exporting`, `unpacking`, `loading` with
`forgotten_before`, and `placing`; `markdown_export`. `records` (what an importer is), `markdown_import`, `claude_code`,
`chatgpt` and `claude` with `json_elements`, `other_memories`; `formats`; `importing` (how what they find comes into a
group).
"""
