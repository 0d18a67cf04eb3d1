"""Chromium on the page: one browser for a run, and tabs that keep what must not happen in them."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from tests.hosting import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Route

# The first has no window to draw: half of the processor time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic"),
)
_WATCH = """
document.addEventListener("securitypolicyviolation", (event) => {
  window.policyRefused(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
_FAULTS = """(rules) => axe.run(document, {resultTypes: ["violations"], preload: false, ...rules}).then(
  (found) => found.violations.map((each) =>
    `${each.id} (${each.impact}): ` + each.nodes.slice(0, 5).map((node) => node.html.slice(0, 200)).join(" | ")))"""
WIDE = 1280
TELEPHONE = 360
_HEIGHT = 800


def find_chromium() -> str:
    """Return the path of the system's Chromium; `make test-page` installs it."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    assert found is not None, "there is no Chromium here: `make test-page` installs it as root"
    return found


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Start the browser, with a profile of its own that is removed again."""
    from playwright.sync_api import sync_playwright  # `make test` passes without it

    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="hb-chromium-") as folder:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(),
            args=list(_FLAGS),
            env={"HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder, "LANG": "C.UTF-8"},
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A tab on the page.

    Args:
        base: origin of the page.
        left: addresses elsewhere that something asked for; none is let through.
        ran: what scripts out of memory have called.
        refused: what the content security policy refused.
        failed: errors of scripts, and dialogs.
    """

    context: BrowserContext
    page: Page
    base: str
    left: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.base + path)

    @property
    def path(self) -> str:
        return str(self.page.url).removeprefix(self.base)

    def words(self) -> str:
        """Return what a person reads of the page, on one line."""
        return " ".join(str(self.page.locator("main").inner_text()).split())

    def press(self, name: str, *, exact: bool = True) -> None:
        """Press a button and wait for the page that it leads to."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=name, exact=exact).first.click()

    def wait_for_answer(self) -> None:
        """Wait until the agent's answer has ended and the page has loaded itself again."""
        self.page.locator("[data-answer]").wait_for(state="detached")
        self.page.wait_for_load_state()

    def open_all(self) -> None:
        """Open what is folded."""
        self.page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": _HEIGHT})

    def sideways(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def faults(self, **rules: Any) -> list[str]:
        """Return the faults that axe finds, minor ones too."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_axe())
        found: list[str] = self.page.evaluate(_FAULTS, rules)
        return found

    def check(self) -> None:
        """Fail when something happened that must not."""
        assert not self.ran, self.ran
        assert not self.left, self.left
        assert not self.refused, self.refused
        assert not self.failed, self.failed


def new_tab(browser: Browser, base: str, **options: Any) -> Tab:
    """Open a tab in a profile of its own."""
    context = browser.new_context(
        **{"viewport": {"width": WIDE, "height": _HEIGHT}, "locale": "en-GB", "timezone_id": "Europe/Vienna", **options}
    )
    context.set_default_timeout(PATIENCE * 1000)
    tab = Tab(context, context.new_page(), base)

    def leaves(route: Route) -> None:
        tab.left.append(route.request.url)
        route.fulfill(status=204)

    def asks(dialog: Dialog) -> None:
        tab.failed.append(f"dialog {dialog.message}")
        dialog.dismiss()

    context.expose_binding("ran", lambda _, what: tab.ran.append(what))
    context.expose_binding("policyRefused", lambda _, what: tab.refused.append(what))
    context.add_init_script(_WATCH)
    context.route(re.compile(rf"^(?!{re.escape(base)}(/|$))"), leaves)
    context.on("weberror", lambda error: tab.failed.append(str(error.error)))
    context.on("dialog", asks)
    context.on("page", lambda page: tab.failed.append(f"another tab was opened: {page.url}"))
    return tab


@cache
def _axe() -> str:
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text()
