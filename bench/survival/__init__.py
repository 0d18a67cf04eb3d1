"""Thirty days of curation by models that lie, lose and loop: what is left. `python -m bench.survival`."""
