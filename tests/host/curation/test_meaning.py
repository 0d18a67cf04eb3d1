"""Meaning: sentences that were turned round are told from those that say the same."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from honeybadger_host.curation.meaning import contradicted, flips, meaning
from tests.host.curation.labelled import FAITHFUL, SECOND_FAITHFUL, UNSEEN_FAITHFUL

TURNED = [
    ("User is allergic to peanuts.", "User is not allergic to peanuts."),
    ("User is not allergic to peanuts.", "User is allergic to peanuts."),
    ("User isn't allergic to peanuts.", "User is allergic to peanuts."),
    ("User isn\u2019t allergic to peanuts.", "User is allergic to peanuts."),
    ("Never deploy on Fridays.", "Deploy on Fridays."),
    ("Deploys need no review.", "Deploys need a review."),
    ("Drinks coffee without milk.", "Drinks coffee with milk."),
    ("Likes olives.", "Dislikes olives."),
    ("Loves jazz.", "Hates jazz."),
    ("Moved from Lisbon to Porto.", "Moved from Porto to Lisbon."),
    ("Moved from Lisbon to Porto.", "Moved to Lisbon from Porto."),
    ("The meeting moved from 3 pm to 4 pm.", "The meeting moved from 4 pm to 3 pm."),
    ("Call before 8 pm.", "Call after 8 pm."),
    ("Closed until Monday.", "Closed since Monday."),
    ("Anna pays Ben.", "Ben pays Anna."),
    ("Anna pays Ben.", "Anna is paid by Ben."),
    ("The landlord owes the tenant 200.", "The tenant owes the landlord 200."),
    ("Anna is 8, Ben is 10.", "Anna is 10, Ben is 8."),
    ("Anna lives in Graz. Ben lives in Linz.", "Anna lives in Linz. Ben lives in Graz."),
    ("They have 3 cats and 2 dogs.", "They have 2 cats and 3 dogs."),
    ("At least 8 characters.", "At most 8 characters."),
    ("Reviews are required.", "Reviews are optional."),
    ("Always lock the door.", "Sometimes lock the door."),
    ("All tests run nightly.", "Some tests run nightly."),
    ("The feature is enabled.", "The feature is disabled."),
    ("Turn left at the church.", "Turn right at the church."),
    ("He sold the car.", "He bought the car."),
    ("She lent him a bike.", "She borrowed a bike from him."),
    ("The offer was accepted.", "The offer was rejected."),
    ("Smoking is allowed.", "Smoking is forbidden."),
    ("Likes tea, not coffee.", "Likes coffee, not tea."),
    ("Eats fish but no meat.", "Eats meat but no fish."),
    ("Prefers tea; does not like olives and capers.", "Prefers tea and capers; does not like olives."),
    ("Das Kind ist nicht allergisch.", "Das Kind ist allergisch."),
    ("Der Hund darf nicht aufs Sofa.", "Der Hund darf aufs Sofa."),
    ("Lena mag keine Oliven.", "Lena mag Oliven."),
    ("Kaffee ohne Milch.", "Kaffee mit Milch."),
    ("Von Kiel nach Rostock gezogen.", "Von Rostock nach Kiel gezogen."),
    ("Bitte vor 22 Uhr anrufen.", "Bitte nach 22 Uhr anrufen."),
    ("Anna schuldet Ben 20 Euro.", "Ben schuldet Anna 20 Euro."),
    ("Mindestens 8 Zeichen.", "Höchstens 8 Zeichen."),
    ("Der Termin ist immer dienstags.", "Der Termin ist nie dienstags."),
    ("Das Fenster ist offen.", "Das Fenster ist geschlossen."),
    ("Er hat das Auto gekauft, nicht geleast.", "Er hat das Auto geleast, nicht gekauft."),
    ("Je ne mange pas de viande.", "Je mange de la viande."),
    ("No come carne.", "Come carne."),
    ("我不吃肉", "我吃肉"),
    ("Он не ест мясо.", "Он ест мясо."),
]

KEPT = [
    ("User is not allergic to peanuts.", "The user isn't allergic to peanuts."),
    ("Moved from Lisbon to Porto.", "Moved to Porto from Lisbon."),
    ("Call before 8 pm.", "Before 8 pm is when to call."),
    ("Anna pays Ben 20 €.", "Ben is paid 20 € by Anna."),
    ("Anna is 8, Ben is 10.", "Ben is 10 and Anna is 8."),
    ("They have 3 cats and 2 dogs.", "They have 2 dogs and 3 cats."),
    ("Not only tea but also coffee.", "Tea and also coffee."),
    ("Drinks coffee without milk.", "Coffee is drunk without milk."),
    ("Anna visits Ben. Ben lives in Linz.", "Anna visits Ben in Linz."),
    ("Lena mag keine Oliven.", "Oliven mag Lena nicht."),
    ("Der Hund darf nicht aufs Sofa.", "Aufs Sofa darf der Hund nicht."),
    ("Von Kiel nach Rostock gezogen.", "Nach Rostock gezogen von Kiel."),
    ("Das Kind ist allergisch gegen Nüsse.", "Das Kind hat eine Allergie, Nüsse."),
    ("Allergic to nuts. Lives in Graz.", "Lives in Graz, allergic to nuts."),
]

TOO_STRICT = [
    ("Never deploy on Fridays.", "On Fridays, never deploy."),
    ("Likes tea, not coffee.", "Likes no coffee, but tea."),
    ("Eats fish but no meat.", "Eats no meat but fish."),
]
"""They say the same, and are refused all the same: a negation reaches to the end of its clause, not further."""


@pytest.mark.parametrize(("source", "result"), TURNED)
def test_what_was_turned_round_is_seen(source: str, result: str) -> None:
    assert flips([source], result)


@pytest.mark.parametrize(("source", "result"), [*KEPT, *FAITHFUL, *SECOND_FAITHFUL, *UNSEEN_FAITHFUL])
def test_what_says_the_same_passes(source: str, result: str) -> None:
    assert flips([source], result) == []


def test_how_many_rewordings_are_refused_though_they_say_the_same() -> None:
    every = [*KEPT, *TOO_STRICT, *FAITHFUL, *SECOND_FAITHFUL, *UNSEEN_FAITHFUL]
    assert sum(bool(flips([source], result)) for source, result in every) <= len(TOO_STRICT)


def test_sources_that_disagree_are_not_merged_into_one_of_them() -> None:
    assert flips(["Likes olives.", "Does not like olives."], "Likes olives.")


def test_what_is_wrong_is_said_in_words() -> None:
    found = flips(["Anna is allergic."], "Anna is allergic, not Ben.")
    assert found[0] == "the result denies something that its sources do not"
    assert "'lisbon' stands behind to, it stood behind from" in flips(
        ["From Lisbon to Porto."], "From Porto to Lisbon."
    )


def test_in_long_texts_a_clause_that_denies_one_of_the_sources_is_found() -> None:
    turns = ["Hello! I am allergic to peanuts, by the way.", "We never deploy on Fridays. Not today, either."]
    assert contradicted(turns, "They talked. The user is not allergic to peanuts.") != []
    assert contradicted(turns, "They deploy on Fridays.") != []
    assert contradicted(turns, "The user is allergic to peanuts. They never deploy on Fridays.") == []


@given(st.text(max_size=80))
def test_a_text_says_the_same_as_itself(text: str) -> None:
    assert flips([text], text) == []


@pytest.mark.parametrize("part", ["not ", "Anna ", "from ", "a,", "Anna pays Ben ", "8 cats ", "n't", "("])
def test_a_long_text_takes_time_by_its_length(part: str) -> None:
    text = part * (10_000 // len(part))
    begin = time.process_time()
    flips([text], text)
    meaning.__wrapped__(text)
    assert time.process_time() - begin < 10
