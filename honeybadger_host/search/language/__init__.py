"""Language for search: terms, stop words, questions, dates, spelling. Pure."""
