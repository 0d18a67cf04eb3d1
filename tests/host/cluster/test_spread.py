"""Homes are spread over machines. Apart from the cluster's tests: their threads draw random numbers, too."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.cluster.machines import Home, State, spread

MACHINES = ("red", "green", "blue", "grey")


@st.composite
def homes(draw: st.DrawFn) -> list[Home]:
    """Return homes that all of some machines keep, each owned by one of them or by none."""
    names = MACHINES[: draw(st.integers(1, 4))]
    owners = draw(st.lists(st.sampled_from([*names, ""]), max_size=12))
    found = []
    for number, owner in enumerate(owners):
        machines = {name: State(f"{name}:/srv/h{number}:01", epoch=int(name == owner)) for name in names}
        found.append(Home(f"h{number}", machines))
    return found


def counts(names: list[str], machines: int) -> list[int]:
    return sorted([*Counter(names).values(), *[0] * (machines - len(set(names)))])


@given(homes())
def test_homes_are_spread_evenly_and_stay_where_they_may(found: list[Home]) -> None:
    orders = spread(found)
    assert [sorted(orders[home.identity]) for home in found] == [sorted(home.machines) for home in found]
    if found:
        machines = [*found[0].machines]
        owned = counts([order[0] for order in orders.values()], len(machines))
        assert owned[-1] - owned[0] <= 1
        for name in machines:
            had = [home.identity for home in found if home.owner == name]
            if len(had) <= len(found) // len(machines):
                assert [orders[home][0] for home in had] == [name] * len(had), "it has no more than its share"
            after = [order[1] for order in orders.values() if order[0] == name and order[1:]]
            seconds = counts(after, len(machines) - 1) or [0]
            assert seconds[-1] - seconds[0] <= 1, "the homes of a lost machine go to all others"
    places = dict(zip(orders, (order[0] for order in orders.values()), strict=True))
    balanced = [Home(one.identity, one.machines, orders[one.identity]) for one in found]
    if all(home.owner == places[home.identity] for home in balanced):
        assert spread(balanced) == orders, "what is balanced stays as it is"
