"""People's editors and the host write the same file; nobody's words are lost."""

from __future__ import annotations

import os

import pytest

from tests.conftest import HostFactory
from tests.hosting import RawSender, request, wait_for


@pytest.mark.parametrize("is_killed", [True, False], ids=["kill", "stop"])
def test_an_editors_older_save_after_a_restart_drops_no_acknowledged_note(
    make_host: HostFactory, stranger: RawSender, is_killed: bool
) -> None:
    host = make_host({"storage.projections.SETTLE_SECONDS": 1}).start()
    assert stranger.ask("a", request("a", content="first"))["ok"] is True
    read_by_the_editor = stranger.memory_text()
    assert stranger.ask("b", request("b", content="second"))["ok"] is True
    if is_killed:
        host.kill()
        host.start()
    else:
        host.stop()
    saved = stranger.memory.with_suffix(".swp")
    saved.write_text(f"A person's line.\n{read_by_the_editor}")
    os.rename(saved, stranger.memory)
    if not is_killed:
        host.start()
    wait_for(lambda: stranger.memory_text().count("- second\n") == 1)
    assert stranger.memory_text().startswith("A person's line.\n")
    assert stranger.memory_text().count("- first\n") == 1
    host.stop()
