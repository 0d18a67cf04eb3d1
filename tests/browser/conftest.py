"""A browser, a page to look at, and tabs on it. Without `HB_BROWSER=1`, as `make test-page` sets it, nothing is run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from honeybadger_agent import SyncClient
from tests.browser.chromium import Tab, new_tab, opened_browser
from tests.browser.scene import Scene, scene_host
from tests.hosting import PATIENCE, HostProcess
from tests.page import Page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if os.environ.get("HB_BROWSER") != "1":
    collect_ignore_glob = ["test_*.py"]


@dataclass
class Site:
    """A host, its page, and who is signed in to it."""

    host: HostProcess
    served: Page
    browser: Browser
    state: Any = None

    @property
    def home(self) -> Path:
        return self.host.home

    @property
    def base(self) -> str:
        return self.served.link.partition("/enter")[0]

    def tab(self, **options: Any) -> Tab:
        """Open a tab that is signed in, as the link does it at the first time."""
        tab = new_tab(self.browser, self.base, **options, storage_state=self.state)
        if self.state is None:
            tab.page.goto(self.served.link)
            tab.page.wait_for_url(f"{self.base}/")
            self.state = tab.context.storage_state()
        return tab

    def client(self, group: str, sender: str = "planner", session: str = "main") -> SyncClient:
        """Return a client of a group, which is made when it is not there."""
        (self.home / "groups" / group).mkdir(exist_ok=True)
        return SyncClient(self.home, group, sender, session=session, timeout_seconds=PATIENCE)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def furnished(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Scene]]:
    """One host with a scene, and its page that writes, for the whole run."""
    scene = Scene(tmp_path_factory.mktemp("scene") / "home").make()
    with scene_host(scene) as host, Page(scene.home) as served:
        host.start()
        yield Site(host, served, chromium), scene.fill()
        assert "page.failed" not in served.log_text()
        served.stop()
        host.stop()


@pytest.fixture
def site(furnished: tuple[Site, Scene]) -> Site:
    return furnished[0]


@pytest.fixture
def scene(furnished: tuple[Site, Scene]) -> Scene:
    return furnished[1]


MakeTab = Callable[..., Tab]


@pytest.fixture
def open_tab(site: Site) -> Iterator[MakeTab]:
    """Open tabs on the furnished page, or on `site=`; in the end nothing must have happened that must not."""
    with ExitStack() as tabs:

        def make(*, site: Site = site, **options: Any) -> Tab:
            tab = site.tab(**options)
            tabs.callback(tab.context.close)
            tabs.callback(tab.check)
            return tab

        yield make


@pytest.fixture
def tab(open_tab: MakeTab) -> Tab:
    return open_tab()


@pytest.fixture
def make_site(chromium: Browser, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Make a host and a page of the test's own."""
    with ExitStack() as parts:

        def make(*arguments: str) -> Site:
            scene = Scene(tmp_path / "home").make()
            host = parts.enter_context(scene_host(scene)).start()
            return Site(host, parts.enter_context(Page(scene.home, arguments)), chromium)

        yield make


@pytest.fixture
def group(request: pytest.FixtureRequest, site: Site) -> str:
    """A group of the test's own."""
    name = f"g{abs(hash(request.node.nodeid)) % 10**12}"
    site.client(name)
    return name
