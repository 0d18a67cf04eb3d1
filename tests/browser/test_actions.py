"""Actions on the page that need a browser: scripts, tabs, the keyboard. flows/test_web.py does the rest."""

import contextlib
import re
from typing import Any

from playwright.sync_api import Error

from tests.browser.chromium import TELEPHONE, Tab
from tests.browser.conftest import MakeTab, Site
from tests.browser.scene import ENDLESS_QUESTION, LONG_ANSWER, LONG_QUESTION, QUESTION, REFUSED_QUESTION, REVIEWED
from tests.hosting import wait_for


def test_of_two_tabs_the_second_sees_the_difference(open_tab: MakeTab, site: Site, group: str) -> None:
    client = site.client(group)
    entry = client.save_memory("Ann likes tea")
    first, second = open_tab(), open_tab()
    for tab, text in ((first, "Ann likes green tea"), (second, "Ann likes black tea")):
        tab.go(f"/g/{group}/entry?id={entry.id}")
        tab.open_all()
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
    for address in tab.page.locator(".change-what > a").evaluate_all("all => all.map(at => at.getAttribute('href'))"):
        tab.go(address)
        told += tab.words()
    return told


def test_the_timeline_shows_changes_live_and_filters(tab: Tab, site: Site, group: str) -> None:
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


def test_the_slider_shows_the_earlier_context_and_difference(tab: Tab, site: Site, group: str) -> None:
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
    for page in ("search", "memory"):  # what was typed is in the address, for the way back
        tab.go(f"/g/{group}/{page}")
        tab.page.locator("#query").press_sequentially("dogs")
        tab.page.wait_for_url("**query=dogs**")
        tab.go("/")
        tab.page.go_back()
        assert "Nothing matches." in tab.words()


def test_an_answer_streams_with_its_tools_and_gets_feedback(tab: Tab, site: Site, group: str) -> None:
    site.client(group).save_memory("The movers are Silva & Filhos.")
    tab.go(f"/g/{group}/talk?session=s1")
    tab.page.get_by_label("Say something").fill(LONG_QUESTION)
    tab.page.get_by_label("As", exact=True).fill("ann")
    tab.page.get_by_role("button", name="Send").click()
    answer = tab.page.locator("#answer [data-text]")
    seen = [wait_for(lambda: str(answer.inner_text()))]
    tab.page.locator("#answer [data-tools] li").first.wait_for()
    with contextlib.suppress(Error):  # it is replaced when the answer has ended
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


def test_a_context_can_be_copied_as_a_command(open_tab: MakeTab, group: str) -> None:
    tab = open_tab(permissions=["clipboard-read", "clipboard-write"])
    tab.go(f"/g/{group}/context?message=hello")
    tab.page.get_by_role("button", name="Copy").click()
    tab.page.get_by_role("button", name="Copied").wait_for()
    assert tab.page.evaluate("navigator.clipboard.readText()") == f"honeybadger-host context {group} --message hello"


def test_a_sent_message_shows_at_once_and_stays_visible(tab: Tab, site: Site, group: str) -> None:
    client = site.client(group, session="s2")
    for number in range(15):
        client.append_turn("user", f"line {number}\n\nand more", sender="ann")
    tab.resize(TELEPHONE)
    tab.go(f"/g/{group}/talk?session=s2")
    below = "at => innerHeight - document.querySelector('.composer').offsetHeight - at.getBoundingClientRect().bottom"

    def is_in_view(kind: str) -> bool:
        return int(tab.page.locator(kind).last.evaluate(below)) >= -5

    wait_for(lambda: is_in_view(".said.user"), what="the newest in view")
    field = tab.page.get_by_label("Say something")
    field.fill(LONG_QUESTION)
    field.press("Shift+Enter")
    field.press_sequentially("Please.")
    with tab.page.expect_request("**/talk/say"):
        field.press("Enter")
    assert field.input_value() == ""
    tab.page.locator(".said.user").filter(has_text="Please.").wait_for()
    tab.page.locator("#answer [data-text]").filter(has_text="1902").wait_for()
    tab.wait_for_answer()
    last = tab.page.locator(".said.agent").last
    last.get_by_role("link", name="Why").wait_for()
    wait_for(lambda: is_in_view(".said.agent"), what="the end of the answer in view")


def test_messages_that_wait_are_shown_in_every_tab(open_tab: MakeTab, group: str) -> None:
    tab, other = open_tab(), open_tab()
    address = f"/g/{group}/talk?session=s3"
    tab.go(address)
    field = tab.page.get_by_label("Say something")
    for count, text in enumerate((LONG_QUESTION, "And then?"), 1):
        field.fill(text)
        field.press("Enter")
        tab.page.locator(".said.user .by").nth(count - 1).wait_for()  # as the page has it
    other.go(address)
    for each in (tab, other):
        assert each.page.locator(".said.user .bubble").all_inner_texts() == [LONG_QUESTION, "And then?"]
        each.page.locator("#answer").wait_for()
    for each in (tab, other):
        each.page.get_by_text("I have noted that.").wait_for()
        assert each.page.locator(".said.user .bubble").all_inner_texts() == [LONG_QUESTION, "And then?"]


def test_unsent_text_returns_to_its_field(tab: Tab, group: str) -> None:
    tab.go(f"/g/{group}/talk")
    tab.page.route("**/talk/say", lambda route: route.abort())
    field = tab.page.get_by_label("Say something")
    field.fill("are you there?")
    field.press("Enter")
    tab.page.locator("#conversation .warning").wait_for()
    assert field.input_value() == "are you there?"
    assert tab.page.locator(".said.user").count() == 0
    tab.failed.clear()  # the request that was not let through
    tab.page.unroute("**/talk/say")
    field.fill(REFUSED_QUESTION)
    field.press("Enter")
    tab.page.locator("#conversation .warning").filter(has_text="its server is down").wait_for()
    assert field.input_value() == REFUSED_QUESTION


def test_an_answers_markdown_makes_no_other_element(tab: Tab, site: Site, group: str) -> None:
    text = "# Plan\n1. **pack** `it`\n2. go\n\n| a | b |\n|---|---|\n| 1 | <b>2</b> |\n\n[x](javascript:ran(1))"
    site.client(group).append_turn("assistant", text, sender="planner")
    tab.go(f"/g/{group}/talk")
    said = tab.page.locator(".said.agent .bubble")
    assert said.locator("ol li").all_inner_texts() == ["pack it", "go"]
    assert said.locator("strong").inner_text() == "pack"
    assert said.locator("td").all_inner_texts() == ["1", "<b>2</b>"]
    assert said.locator("a, b, script").count() == 0
    assert "javascript:ran(1)" in said.inner_text()


def test_rows_are_chosen_together_and_counted(tab: Tab, site: Site, group: str) -> None:
    client = site.client(group)
    for number in range(12):
        client.save_memory(f"the box number {number} is packed")
    tab.go(f"/g/{group}/memory")
    archive = tab.page.get_by_role("button", name="Archive")
    assert archive.is_disabled()
    boxes = tab.page.locator("tbody input[type=checkbox]")
    boxes.nth(1).click()
    boxes.nth(10).click(modifiers=["Shift"])
    assert tab.page.locator("[data-count]").inner_text() == "10 chosen"
    tab.page.get_by_label("Choose all of this page").click()
    assert tab.page.locator("[data-count]").inner_text() == "12 chosen"
    tab.page.get_by_label("Choose all of this page").click()
    assert archive.is_disabled()
    tab.page.get_by_label("Search").press_sequentially("number 7")
    tab.page.locator("tbody tr").first.filter(has_text="number 7").wait_for()
    tab.page.locator("tbody input[type=checkbox]").first.click()  # what was swapped in is counted, too
    assert tab.page.locator("[data-count]").inner_text() == "1 chosen"
    tab.press("Pin")
    assert "1 pinned." in tab.words()


def test_five_tasks_take_few_clicks_from_the_start(tab: Tab, site: Site, group: str) -> None:
    """Clicks from the first page on; docs/page.md names them."""
    client = site.client(group)
    for number in range(10):
        client.save_memory(f"the vase number {number} is broken")
    entry = client.save_memory("The movers are Silva & Filhos.")
    client.chat(QUESTION)
    assert site.client(REVIEWED).save_memory("the gate is green").proposal is not None
    clicks: list[str] = []

    def click(role: Any, name: str, **options: Any) -> None:
        clicks.append(name)
        tab.page.get_by_role(role, name=name, exact=True).first.click(**options)

    def begin() -> None:
        clicks.clear()
        tab.go(f"/?named={group}")

    begin()  # why is this in the prompt
    click("link", group)
    click("link", "Talk")
    tab.page.get_by_role("link", name=re.compile("^Why")).last.click()
    tab.page.locator(".recalled a").first.wait_for()
    assert "The movers are Silva & Filhos." in tab.page.locator(".recalled").inner_text()
    assert len(clicks) == 2

    begin()  # take back a change
    client.edit_memory(entry.id, content="The movers are the wrong ones.")
    click("link", "Timeline")
    seq = str(tab.page.locator(".change", has_text="the wrong ones").locator("button").get_attribute("aria-label"))
    click("button", seq)
    tab.page.get_by_role("heading").first.wait_for()
    wait_for(lambda: client.get_memory(entry.id).content == "The movers are Silva & Filhos.", what="the change undone")
    assert len(clicks) == 2

    begin()  # archive ten
    with tab.page.expect_navigation():  # until it has loaded nothing listens to the field
        tab.page.locator(f'a[href="/g/{group}/memory?kind=entries"]').click()
    tab.page.get_by_label("Search").fill("vase")
    tab.page.locator("[data-count]").filter(has_text=re.compile("^10$")).wait_for()
    tab.page.get_by_label("Choose all of this page").click()
    tab.press("Archive")
    assert "10 archived." in tab.words()

    tab.go("/")  # answer a proposal
    clicks.clear()
    click("link", "Decide: the gate is green")
    click("button", "Accept")
    tab.page.get_by_text("Accepted.").wait_for()
    assert len(clicks) == 2

    tab.go(f"/g/{group}/talk?session=s9")  # stop an agent
    tab.page.get_by_label("Say something").fill(ENDLESS_QUESTION)
    tab.page.get_by_label("Say something").press("Enter")
    tab.page.locator("#answer [data-text]").filter(has_text="word 3").wait_for()
    begin()
    tab.go("/")
    click("button", f"Stop the answer in {group}")  # the page shows it by itself when it has begun
    assert len(clicks) == 1
    tab.go(f"/g/{group}/talk?session=s9")
    tab.page.locator(".said.agent").filter(has_text="word 3").wait_for()


def test_a_new_operator_needs_only_the_keyboard(tab: Tab, site: Site) -> None:
    """Why an entry is in a prompt; one operation accepted and undone, without the documentation."""
    client = site.client(REVIEWED, "cook")
    client.save_memory("The spare key hangs in the cellar")
    tab.go("/")
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.className") == "skip"
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("document.activeElement.id || location.hash") in ("main", "#main")
    _follow(tab, REVIEWED)
    _follow(tab, "Review")
    _follow(tab, "The spare key hangs in the cellar")
    _follow(tab, "Accept")
    assert "Accepted." in tab.words()
    _follow(tab, "Context")
    _to(tab, "What the user says now")
    tab.page.keyboard.type("Where is the spare key?")
    with tab.page.expect_navigation():
        tab.page.keyboard.press("Enter")
    assert re.search("Recalled .*words: ", tab.words())
    _follow(tab, "The spare key hangs in the cellar")
    change = str(tab.page.locator(".changes button").first.get_attribute("aria-label"))
    _follow(tab, change)
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
