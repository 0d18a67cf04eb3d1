"""Memory: group files, turns, entries, working memory and session documents, and their pure rules.

May import everything below it in the order of docs/architecture.md. It does not know how it is searched.

Reading order: `markdown/` with `edited_notes`; `turn_log`, `turn_log_store` and `feedback`; `entries/`;
`working_memory` and `working_memory_store`; `session_document`, `compaction` and `session_document_store`; `edited`
(how all JSON that people edit is read); `injection_ledger`; `peoples_files` and `moments`.
"""
