"""Hypothesis for these rooms: no deadline for one example, the machine may be busy; the tests have a limit of their own."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rooms", deadline=None, max_examples=100)
settings.load_profile("rooms")
