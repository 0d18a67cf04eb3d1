"""Long-term entries: saved, edited, listed, archived, by their text or by their name.

Reading order: `saving`, with `texts` (what a request says), `places` (the file it goes to) and `answers` (the reply);
`editing`, `changing_many`, `superseding` and `archiving`; `listing` and `similar`.
"""
