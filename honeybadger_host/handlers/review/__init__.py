"""Decisions of the operator: proposals of curation, and writes of groups that are reviewed.

Reading order: `proposals` (listed, decided, asked for, and writes that become one), `reverting` (one is taken back).
"""
