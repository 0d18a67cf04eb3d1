"""What is remembered: group files, turns, entries, working memory and session documents, and their pure rules.

May import: storage, text, domain, errors, and the wire models. It does not know how it is searched.

Reading order: `notes` and `group_files`; `turn_log`; `entry` and `entry_store`; `working_memory` and its store;
`session_document`, `compaction` and its store; `budget`; `injection_ledger` (what contexts put before a model).
"""
