"""Decisions of the operator: proposals of curation, and writes of groups that are reviewed.

Reading order: `writes` (that become a proposal), `reverting` (one is taken back), `proposals` (listed and decided).
"""
