"""`make screenshots`: pictures of the operators' page, of the scene that the tests look at, for the documentation."""

import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import Tab, new_tab, opened_browser
from tests.browser.scene import GROUP, QUESTION, Scene, scene_host
from tests.page import Page

_WIDTH = 1000
_TELEPHONE = 390
_MAX_HEIGHT = 1100
_SHOTS = {
    "home": "/",
    "context": f"/g/{GROUP}/context?message=Which+movers+do+we+have",
    "entry": f"/g/{GROUP}/entry?id={{entry}}",
    "memory": f"/g/{GROUP}/memory",
    "review": f"/g/{GROUP}/review/{{proposal}}",
    "timeline": f"/g/{GROUP}/timeline",
    "search": f"/g/{GROUP}/search?query=movers+Lisbon",
    "talk": f"/g/{GROUP}/talk",
    "tasks": f"/g/{GROUP}/tasks",
    "health": "/health",
}


def shoot(folder: Path) -> list[Path]:
    """Write a picture of each page into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hb-shots-") as place:
        scene = Scene(Path(place) / "home").make()
        with scene_host(scene) as host, Page(scene.home) as served, opened_browser() as browser:
            host.start()
            scene.fill()
            scene.client("ann").chat(QUESTION)
            tab = new_tab(browser, served.link.partition("/enter")[0])
            tab.page.goto(served.link)
            made = [_shot(tab, folder, name, address.format(**scene.names)) for name, address in _SHOTS.items()]
            tab.page.emulate_media(color_scheme="dark")
            made.append(_shot(tab, folder, "context-dark", _SHOTS["context"]))
            tab.page.emulate_media(color_scheme="light")
            made.append(_shot(tab, folder, "memory-telephone", _SHOTS["memory"], _TELEPHONE))
            tab.check()
            tab.context.close()
            served.stop()
            host.stop()
    return made


def _shot(tab: Tab, folder: Path, name: str, address: str, width: int = _WIDTH) -> Path:
    tab.resize(width)
    tab.go(address)
    height = min(_MAX_HEIGHT, int(tab.page.evaluate("document.documentElement.scrollHeight")))
    path = folder / f"{name}.png"
    tab.page.screenshot(path=str(path), full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
    return path


if __name__ == "__main__":
    for picture in shoot(Path(sys.argv[1])):
        print(f"{picture}: {picture.stat().st_size // 1024} KiB")
