"""The page through a day: the host goes and comes back, nobody may write, a link is used twice, another site tries."""

from collections.abc import Callable

from tests.browser.conftest import MakeTab, Site
from tests.browser.scene import GROUP, LONG_QUESTION
from tests.hosting import wait_for

MakeSite = Callable[..., Site]


def test_every_tab_notices_a_killed_host_and_recovers(open_tab: MakeTab, make_site: MakeSite) -> None:
    site = make_site("--write")
    client = site.client(GROUP)
    entry = client.save_memory("the sofa stays here")
    live, reading, writing = (open_tab(site=site) for _ in range(3))
    live.go(f"/g/{GROUP}/timeline")
    live.page.get_by_text("the sofa stays here").wait_for()
    writing.go(f"/g/{GROUP}/entry?id={entry.id}")
    writing.open_all()
    writing.page.get_by_label("Text").fill("the sofa comes with us")
    site.host.kill()
    notice = live.page.locator("#host-notice")
    notice.filter(has_text="The host is down").wait_for()
    reading.go(f"/g/{GROUP}/memory")
    assert "The host is down" in reading.words()
    writing.press("Save")
    assert "The host is down" in writing.words()
    assert writing.page.get_by_label("content").input_value() == "the sofa comes with us"
    assert writing.faults() == []
    site.host.restart()
    reading.page.get_by_text("the sofa stays here").wait_for()  # nobody loaded it again
    notice.wait_for(state="hidden")
    client.update_memory("we are back")
    live.page.get_by_text("we are back").wait_for()
    assert client.get_memory(entry.id).content == "the sofa stays here"


def test_an_answer_that_is_written_outlives_a_killed_host(open_tab: MakeTab, make_site: MakeSite) -> None:
    site = make_site("--write")
    site.client(GROUP).save_memory("The movers are Silva & Filhos.")
    tab = open_tab(site=site)
    tab.go(f"/g/{GROUP}/talk")
    tab.page.get_by_label("Say something").fill(LONG_QUESTION)
    tab.page.get_by_role("button", name="Send").click()
    tab.page.locator("#answer").wait_for()
    site.host.kill()
    site.host.restart()
    tab.wait_for_answer()
    assert LONG_QUESTION in tab.words()


def test_without_write_there_is_nothing_to_press(open_tab: MakeTab, make_site: MakeSite) -> None:
    site = make_site()
    entry = site.client(GROUP).save_memory("the sofa stays here")
    tab = open_tab(site=site)
    addresses = ("/", f"/g/{GROUP}/memory", f"/g/{GROUP}/entry?id={entry.id}", f"/g/{GROUP}/timeline", "/health")
    for address in (*addresses, f"/g/{GROUP}/talk", f"/g/{GROUP}/tasks", f"/g/{GROUP}/review", "/change/1"):
        tab.go(address)
        assert tab.page.locator("form[method=post]").count() == 0, address
        assert tab.page.locator("header .badge").inner_text() == "read-only"
    status = tab.page.evaluate(
        """(id) => fetch("/g/family/entry/edit", {method: "POST", body: new URLSearchParams({id, action: "pin"})})
           .then((answer) => answer.status)""",
        entry.id,
    )
    assert status == 403
    tab.failed.clear()


def test_another_site_can_neither_frame_nor_post(open_tab: MakeTab, site: Site) -> None:
    """A site that the same browser opens, with the session's cookie in it."""
    client = site.client(GROUP)
    entry = client.save_memory("the sofa stays here")
    tab = open_tab()
    html = f"""<iframe src="{site.base}/"></iframe><form method=post action="{site.base}/g/{GROUP}/entry/edit">
      <input name=id value={entry.id}><input name=version value=x><input name=action value=pin></form>"""
    tab.context.unroute_all()
    tab.context.route("http://evil.test/", lambda route: route.fulfill(body=html, content_type="text/html"))
    tab.page.goto("http://evil.test/")
    frame = wait_for(lambda: next(iter(tab.page.frames[1:]), None))
    assert frame is not None
    assert "Groups" not in str(frame.locator(":root").inner_text())
    with tab.page.expect_navigation():
        tab.page.evaluate("document.forms[0].submit()")
    assert "You are not signed in" in tab.words()  # the cookie is not sent from elsewhere
    assert "read-only" not in tab.words()
    assert not client.get_memory(entry.id).pinned
    tab.failed.clear()
