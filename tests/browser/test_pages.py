"""Every page as it is read: by everybody's eyes, on a telephone, with the keyboard alone, and without JavaScript."""

from collections.abc import Iterator

import pytest

from tests.browser.chromium import TELEPHONE, WIDE, Tab
from tests.browser.conftest import MakeTab, Site
from tests.browser.scene import GROUP, REVIEWED, Scene

# Name -> address, and what a person reads there.
PAGES = {
    "what needs you": ("/", "family/scanner/receipt-17"),
    "groups by name": ("/?named=fam", "family"),
    "context": (f"/g/{GROUP}/context?message=Which+movers+do+we+have", "absent parts: "),
    "context of then": (f"/g/{GROUP}/context?as_of=5", "Difference to now"),
    "memory": (f"/g/{GROUP}/memory", "The piano goes last"),
    "archived": (f"/g/{GROUP}/memory?kind=archived", "Archived"),
    "note": (f"/g/{GROUP}/entry?id={{note}}", "History"),
    "entry": (f"/g/{GROUP}/entry?id={{entry}}", "in cash"),
    "who wrote an entry": (f"/g/{GROUP}/blame?id={{entry}}", "planner"),
    "who wrote the notes": (f"/g/{GROUP}/blame", "Ben wants the room"),
    "search": (f"/g/{GROUP}/search?query=movers", "points"),
    "review": (f"/g/{REVIEWED}/review", "Ann likes the colour blue"),
    "write that waits": (f"/g/{REVIEWED}/review/{{write}}", "Ann likes the colour blue"),
    "proposal": (f"/g/{GROUP}/review/{{proposal}}", "1. Merge"),
    "timeline": ("/timeline", "planner"),
    "change": ("/change/{seq}", "Kind"),
    "tasks": (f"/g/{GROUP}/tasks", "0 9 * * 1-5"),
    "task": (f"/g/{GROUP}/tasks/{{task}}", "Say what is still to be done"),
    "health": ("/health", "scanner/receipt-17"),
    "doctor": ("/health/doctor", "served by process"),
    "talk": (f"/g/{GROUP}/talk", "because the stairs are narrow"),
    "no such page": ("/nowhere", "Not found"),
}
_WCAG_22 = {"target-size": {"enabled": True}}  # axe looks at it only when told
_OF_COLOUR = ["color-contrast", "link-in-text-block"]
_COLOURLESS = {rule: {"enabled": False} for rule in _OF_COLOUR}  # colours are those of the wide window
_FOCUSABLE = """() => [...document.querySelectorAll(
  "a[href], button:enabled, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
  .filter((each) => each.checkVisibility()).length"""
_WALK = """() => {
  window.walked = new Map();
  document.addEventListener("focusin", ({target: at}) => window.walked.set(at, getComputedStyle(at).outlineStyle));
}"""
_WALKED = "() => [...window.walked].map(([at, outline]) => [outline, at.outerHTML.slice(0, 120)])"


@pytest.fixture(params=PAGES)
def shown(request: pytest.FixtureRequest, scene: Scene) -> tuple[str, str]:
    address, says = PAGES[request.param]
    return address.format(**scene.names), says


@pytest.fixture(scope="module")
def reader(furnished: tuple[Site, Scene]) -> Iterator[Tab]:
    """One tab for all that is only read."""
    tab = furnished[0].tab()
    yield tab
    tab.check()
    tab.context.close()


@pytest.fixture(scope="module")
def plain(furnished: tuple[Site, Scene]) -> Iterator[Tab]:
    """One tab without JavaScript."""
    tab = furnished[0].tab(java_script_enabled=False)
    yield tab
    tab.check()
    tab.context.close()


def test_a_page_is_whole_for_eyes_and_keyboard(reader: Tab, shown: tuple[str, str]) -> None:
    address, says = shown
    reader.page.emulate_media(color_scheme="light")
    reader.go(address)
    assert says in reader.words()
    assert reader.page.locator("h1").count() == 1
    marked = 0 if address == "/nowhere" else reader.page.locator("header nav").count()
    assert reader.page.locator("header [aria-current]").count() == marked
    see_reached_by_keyboard(reader)
    reader.open_all()
    for width, rules in ((WIDE, _WCAG_22), (TELEPHONE, _WCAG_22 | _COLOURLESS)):
        reader.resize(width)
        assert reader.sideways() == 0
        assert reader.faults(rules=rules) == []
    ground = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
    reader.page.emulate_media(color_scheme="dark")
    assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    assert reader.faults(runOnly=_OF_COLOUR) == []


def see_reached_by_keyboard(tab: Tab) -> None:
    """See that the keyboard reaches all that can be used, and that it shows where it is."""
    count = int(tab.page.evaluate(_FOCUSABLE))
    tab.page.evaluate(_WALK)
    for _ in range(count):
        tab.page.keyboard.press("Tab")
    walked = tab.page.evaluate(_WALKED)
    assert [what for outline, what in walked if outline == "none"] == []
    assert len(walked) == count


@pytest.mark.parametrize("shown", ["context of then", "search", "review", "timeline", "talk"], indirect=True)
def test_a_page_is_read_without_javascript(plain: Tab, shown: tuple[str, str]) -> None:
    address, says = shown
    plain.go(address)
    assert says in str(plain.page.locator("main").text_content())
    assert plain.page.locator("h1").is_visible()
    assert plain.page.locator("header").is_visible()


def test_times_are_local_or_utc_without_javascript(open_tab: MakeTab) -> None:
    shown = {}
    for zone, is_on in (("Asia/Tokyo", True), ("America/Lima", True), ("Asia/Tokyo", False)):
        tab = open_tab(timezone_id=zone, java_script_enabled=is_on)
        tab.go("/timeline")
        shown[zone, is_on] = str(tab.page.locator("time").last.text_content())
    assert len({*shown.values()}) == 3
    assert shown["Asia/Tokyo", False].endswith(" UTC")


def test_the_check_for_faults_finds_one(tab: Tab) -> None:
    tab.go("/")
    tab.page.evaluate("document.querySelector('main').innerHTML = '<h1>x</h1><input><p>pale'")
    tab.page.evaluate("document.querySelector('main p').style.color = '#eee'")
    assert [fault.split(" ")[0] for fault in tab.faults()] == ["color-contrast", "label"]
