"""What the search knows of languages: terms, stop words, what a question asks for, dates, spelling. Pure."""
