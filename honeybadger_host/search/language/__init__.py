"""What the search knows of languages. Pure.

Reading order: `analyzer` (text to terms), `lexicon` and `stopwords` (words), `question` (what a query
asks for), `dates`, `spelling`.
"""
