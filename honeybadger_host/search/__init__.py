"""What finds: a derived index over entries, notes and turns, and the ranking of what it holds.

May import: memory, storage, text, domain, errors. `data/index.db` may be deleted at any time.

Reading order: `sources` and `documents` (what is indexed), `parser`, `indexer`, `index_writer` and `index_db` (how),
`corpora` (what of it is in memory), `index` (its life); `corpus`, `scoring`, `ranking` and `lookups` (a search);
`embeddings`, `vectors` and `index_vectors`; `language/` (words).
"""
