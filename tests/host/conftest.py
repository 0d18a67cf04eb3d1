"""Hypothesis without a time limit for each example: the machine may be busy, and every test has its own."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("rooms", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rooms")
