"""What a person does on the page that needs a browser: scripts, tabs, the keyboard. flows/test_web.py does the rest."""

from __future__ import annotations

import contextlib
import re

from playwright.sync_api import Error

from tests.browser.chromium import Tab
from tests.browser.conftest import MakeTab, Site
from tests.browser.scene import LONG_ANSWER, LONG_QUESTION, REVIEWED
from tests.hosting import wait_for


def test_of_two_tabs_that_edit_one_entry_the_second_sees_the_difference(
    open_tab: MakeTab, site: Site, group: str
) -> None:
    client = site.client(group)
    entry = client.save_memory("Ann likes tea")
    first, second = open_tab(), open_tab()
    for tab, text in ((first, "Ann likes green tea"), (second, "Ann likes black tea")):
        tab.go(f"/g/{group}/entry?id={entry.id}")
        tab.page.get_by_label("Text").fill(text)
    first.press("Save")
    second.press("Save")
    assert client.get_memory(entry.id).content == "Ann likes green tea"
    told = second.words()
    assert "It has changed meanwhile" in told
    assert second.page.locator(".diff .removed").inner_text() == "- Ann likes green tea"
    assert second.page.locator(".diff .added").inner_text() == "+ Ann likes black tea"
    assert second.page.get_by_label("Text").input_value() == "Ann likes black tea"
    assert second.faults() == []
    second.press("Save mine over it")
    assert client.get_memory(entry.id).content == "Ann likes black tea"
    assert "Ann likes green tea" in _changes(second, group)


def _changes(tab: Tab, group: str) -> str:
    tab.go(f"/g/{group}/timeline?kind=entry")
    told = ""
    for address in tab.page.locator(".change > a").evaluate_all("all => all.map(each => each.getAttribute('href'))"):
        tab.go(address)
        told += tab.words()
    return told


def test_the_timeline_shows_a_change_as_it_happens_and_filters(tab: Tab, site: Site, group: str) -> None:
    client = site.client(group)
    client.update_memory("the first")
    tab.go(f"/g/{group}/timeline")
    tab.page.get_by_text("the first").wait_for()
    client.update_memory("the second")
    tab.page.get_by_text("the second").wait_for()  # without loading the page again
    assert tab.path == f"/g/{group}/timeline"
    tab.page.get_by_label("By").fill("nobody")
    tab.press("Filter")
    assert "the second" not in tab.words()


def test_the_slider_shows_the_context_of_then_with_the_difference(tab: Tab, site: Site, group: str) -> None:
    client = site.client(group)
    client.update_memory("Ann likes tea")
    seq = client.get_context().seq
    client.update_memory("Ann likes cake, too")
    tab.go(f"/g/{group}/context")
    slider = tab.page.get_by_label("Back in time")
    with tab.page.expect_navigation():
        slider.evaluate(
            "(it, to) => { it.value = to; for (const n of ['input', 'change']) it.dispatchEvent(new Event(n)); }",
            str(seq),
        )
    assert f"As of change {seq}" in tab.words()
    assert "Ann likes cake, too" in tab.page.locator(".diff .added").all_inner_texts()[-1]


def test_search_answers_as_somebody_types_and_its_hits_open(tab: Tab, site: Site, group: str) -> None:
    client = site.client(group)
    client.save_memory("Mimi is the name of the cat")
    tab.go(f"/g/{group}/search")
    tab.page.get_by_label("Words or a question").press_sequentially("cat name")
    tab.page.get_by_text("Mimi is the name of the cat").first.wait_for()
    assert re.search(r"\d\.\d\d points: ", tab.words())
    tab.page.locator("#results a").first.click()
    assert "Mimi is the name of the cat" in tab.words()


def test_an_answer_streams_with_its_tools_and_gets_feedback(tab: Tab, site: Site, group: str) -> None:
    site.client(group).save_memory("The movers are Silva & Filhos.")
    tab.go(f"/g/{group}/talk?session=s1")
    tab.page.get_by_label("Say something").fill(LONG_QUESTION)
    tab.page.get_by_label("As", exact=True).fill("ann")
    tab.press("Send")
    answer = tab.page.locator("#answer [data-text]")
    seen = [wait_for(lambda: str(answer.inner_text()))]
    tab.page.locator("#answer [data-tools] li").first.wait_for()
    with contextlib.suppress(Error):  # the page loads itself again when the answer has ended
        while tab.page.locator("#answer").count() and len(seen) < 500:
            seen.append(str(tab.page.evaluate("document.querySelector('#answer [data-text]')?.textContent ?? ''")))
    assert len({*seen}) > 3, "the answer came in one piece"
    tab.wait_for_answer()
    tab.page.get_by_text(LONG_ANSWER).wait_for()
    tab.page.get_by_text("That was wrong").last.click()
    tab.page.get_by_label("What would be right").last.fill("Don't say EUR, say euros")
    with tab.page.expect_navigation():
        tab.page.get_by_role("button", name="Correct it").last.click()
    assert "memory learns from it" in tab.words()


def test_an_answer_is_stopped(tab: Tab, group: str) -> None:
    tab.go(f"/g/{group}/talk")
    tab.page.get_by_label("Say something").fill(LONG_QUESTION)
    tab.press("Send")
    tab.page.locator("#answer [data-text]").filter(has_text=re.compile("The movers")).wait_for()
    tab.page.get_by_role("button", name="Stop").click()  # the end of the answer may load the page first
    tab.wait_for_answer()
    assert LONG_ANSWER[-20:] not in tab.words()


def test_a_context_can_be_copied_as_a_command(open_tab: MakeTab, group: str) -> None:
    tab = open_tab(permissions=["clipboard-read", "clipboard-write"])
    tab.go(f"/g/{group}/context?message=hello")
    tab.page.get_by_role("button", name="Copy").click()
    tab.page.get_by_role("button", name="Copied").wait_for()
    assert tab.page.evaluate("navigator.clipboard.readText()") == f"honeybadger-host context {group} --message hello"


def test_everything_a_new_operator_does_is_done_with_the_keyboard_alone(tab: Tab, site: Site) -> None:
    """Why an entry is in a prompt; one operation accepted and undone, without the documentation."""
    client = site.client(REVIEWED, "cook")
    proposal = client.save_memory("The spare key hangs in the cellar").proposal
    tab.go("/")
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.className") == "skip"
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("document.activeElement.id || location.hash") in ("main", "#main")
    _follow(tab, REVIEWED)
    _follow(tab, "Review")
    _follow(tab, proposal or "")
    _follow(tab, "Accept")
    assert "Accepted." in tab.words()
    _follow(tab, "What an agent sees")
    _to(tab, "What the user says now")
    tab.page.keyboard.type("Where is the spare key?")
    with tab.page.expect_navigation():
        tab.page.keyboard.press("Enter")
    assert re.search("Recalled .*words: ", tab.words())
    entry = client.search_memory("spare key").hits[0].id
    _follow(tab, entry)
    change = str(tab.page.locator(".changes a").first.inner_text())
    _follow(tab, change)
    _follow(tab, "Undo this change")
    assert client.search_memory("spare key", scope="entries").hits == []


def _to(tab: Tab, name: str) -> None:
    """Press Tab until something of that name has the focus."""
    for _ in range(120):
        tab.page.keyboard.press("Tab")
        told = tab.page.evaluate(
            "(at => at.ariaLabel ?? at.labels?.[0]?.textContent ?? at.textContent)(document.activeElement)"
        )
        if str(told).strip() == name:
            return
    raise AssertionError(f"the keyboard does not reach {name!r} on {tab.path}")


def _follow(tab: Tab, name: str) -> None:
    _to(tab, name)
    with tab.page.expect_navigation():
        tab.page.keyboard.press("Enter")
