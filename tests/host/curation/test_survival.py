"""Facts survive 30 days of models that lie, lose and loop, and only because of the gates."""

from __future__ import annotations

from bench.survival.__main__ import survive


def test_facts_survive_models_of_every_kind() -> None:
    outcome = survive(101, passes=125)  # `python -m bench.survival` has more of them
    assert outcome.is_good, outcome
    assert outcome.renewed > 0
    assert outcome.applied["honest"] > 20
    assert outcome.applied["lying"] == outcome.applied["injected"] == outcome.applied["looping"] == 0


def test_without_gates_they_do_not() -> None:
    outcome = survive(101, policy=None, passes=125)
    assert not outcome.is_good
    assert outcome.harm["loss"]
    assert outcome.live < 0.9
