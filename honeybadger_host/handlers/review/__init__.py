"""Decisions of the operator: proposals of curation, and writes of groups that are reviewed.

Reading order: `waiting` (a write becomes a proposal), `reverting` (a proposal is taken back), `proposals` (listed,
decided, asked for).
"""
