"""The languages of the search: analysis and word lists. Pure.

Reading order: `analyzer` (text to terms), `lexicon` and `stopwords` (words), `question` (what a query
asks for), `dates`, `spelling`.
"""
