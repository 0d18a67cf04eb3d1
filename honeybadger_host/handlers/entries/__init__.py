"""Long-term entries: saved, edited, listed, archived, by their text or by their name.

Reading order: `answers` (an entry in requests and replies), `saving`, with `places` (the file it goes to); `editing`,
`changing_many` and `superseding`; `listing` and `similar`.
"""
