"""The languages of the search: analysis and word lists. Pure.

Reading order: `analyzer` (text to terms, word lists), `dates`, `spelling`, `similarity` (of texts).
"""
