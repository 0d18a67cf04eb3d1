"""Hypothesis without a deadline for each example: the machine may be busy, and every test has a limit of its own."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rooms", deadline=None, max_examples=100)
settings.load_profile("rooms")
