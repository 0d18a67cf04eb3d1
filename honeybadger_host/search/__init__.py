"""Search: a derived index over entries, notes and turns, and its ranking.

May import: memory, journal, files, text, errors. `data/index.db` may be deleted at any time.

Reading order: `sources`, `pieces` and `documents` (what is indexed), `indexer` and `index_db` (how),
`index` and `corpora` (its life, what is in memory); `blocks`, `corpus`, `asked`, `ranking` and `lookups` (a
search); `notes` (by their ids); `working_search`; `embeddings` and `index_vectors`; `language/` (words).
"""
