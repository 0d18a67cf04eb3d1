"""A page on a home that a host serves."""

from collections.abc import Iterator

import pytest

from honeybadger_host.files.home import make_home
from tests.hosting import HostProcess
from tests.page import Browser, Page


@pytest.fixture(scope="module")
def served_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HostProcess, Page, Browser]]:
    """One host, its page that writes, and a browser that is signed in, for all tests of a module."""
    folder = tmp_path_factory.mktemp("page") / "home"
    make_home(folder)
    with HostProcess(folder) as host, Page(folder) as page:
        host.start()
        yield host, page, page.browser()
        page.stop()
        host.stop()


@pytest.fixture
def browser(served_page: tuple[HostProcess, Page, Browser]) -> Browser:
    return served_page[2]


@pytest.fixture
def page(served_page: tuple[HostProcess, Page, Browser]) -> Page:
    return served_page[1]
