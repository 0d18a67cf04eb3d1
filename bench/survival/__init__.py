"""Curation by models that lie, lose, loop, inject, truncate and hang, in six languages. `python -m bench.survival`."""
