"""Decisions of the operator: proposals of curation, and writes of groups that are reviewed.

Reading order: `waiting` (a write becomes a proposal), `proposals` (listed, decided, asked for).
"""
