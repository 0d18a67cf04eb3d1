"""Export and import of groups, and imports from other programs.

May import: ops, spool, curation, search, memory, journal, files, text, errors, settings. Only commands and the start
of a host use it.

Reading order: `places` and `exported` (the form of an export), `exporting`, `loading`; `markdown_export`.
`records` (the interface of importers), `markdown_import`, `claude_code`, `chat_exports` with `json_elements`,
`other_memories`; `formats`; `importing` (sends records to the host).
"""
