"""What finds: a derived index over entries, notes and turns, and the ranking of what it holds.

May import: memory, storage, text, domain, errors. `data/index.db` may be deleted at any time.

Reading order: `sources` and `documents` (what is indexed), `indexer`, `parser` and `index_db` (how), `index` (its
life); `corpus`, `scoring`, `ranking` and `lookups` (a search); `embeddings` and `vectors`; `language/` (words).
"""
