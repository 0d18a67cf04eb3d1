"""The groups' folders may lie elsewhere, in a vault or a git repository: links that the operator makes (AM4)."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from honeybadger_host.errors import HomeError, StorageFailed
from honeybadger_host.files.home import check_home, make_home
from tests.commands import cli_error
from tests.conftest import HostFactory
from tests.hosting import RawSender, request, run_cli, wait_for
from tests.people import save


def _search(sender: RawSender, query: str) -> list[str]:
    name = os.urandom(8).hex()
    reply = sender.ask(name, request(name, "search_memory", payload={"query": query}))
    return [hit["text"] for hit in reply["result"]["hits"]]


def _back_up(home: Path, archive: Path) -> None:
    assert run_cli("backup", archive, home=home).returncode == 0


@pytest.mark.parametrize("link", ["groups", "groups/main"])
def test_a_group_elsewhere_is_served_followed_and_backed_up(
    make_host: HostFactory, stranger: RawSender, tmp_path: Path, link: str
) -> None:
    vault = tmp_path / "vault"
    if os.path.lexists(stranger.home / link):
        (stranger.home / link).rename(vault)
    else:
        vault.mkdir()
    (stranger.home / link).parent.mkdir(parents=True, exist_ok=True)
    (stranger.home / link).symlink_to(vault)
    memory = vault / ("main/MEMORY.md" if link == "groups" else "MEMORY.md")
    host = make_host().start()
    stranger.do("a", content="The piano was tuned")
    assert "- The piano was tuned" in memory.read_text()

    save(memory, memory.read_text() + "\n- Rhubarb grows behind the shed\n")
    wait_for(lambda: any("Rhubarb" in text for text in _search(stranger, "rhubarb")))

    host.kill()
    host.start()
    stranger.do("b", content="The cello is away")
    wait_for(lambda: "- The cello is away" in memory.read_text(), what="it is written behind the save")
    assert memory.read_text().count("- The piano was tuned") == memory.read_text().count("- The cello is away") == 1
    _back_up(stranger.home, tmp_path / "packed.tar.gz")
    host.stop()
    with tarfile.open(tmp_path / "packed.tar.gz") as packed:
        assert packed.getmember("groups/main").isdir()
        assert packed.getmember("groups/main/MEMORY.md").size == memory.stat().st_size


def test_init_links_groups_by_absolute_or_relative_path(tmp_path: Path) -> None:
    made = make_home(tmp_path / "one", groups=tmp_path / "vault")
    assert (tmp_path / "vault/main/CLAUDE.md").is_file()
    assert tmp_path / "one/groups/main/CLAUDE.md" in made
    make_home(tmp_path / "two", groups=Path("notes"))
    assert (tmp_path / "two/notes/main/CLAUDE.md").is_file()
    assert make_home(tmp_path / "one", groups=tmp_path / "vault") == []
    for home in ("one", "two"):
        check_home(tmp_path / home)
    with pytest.raises(HomeError, match="is there already: move what it holds to"):
        make_home(tmp_path / "one", groups=tmp_path / "another")
    assert not (tmp_path / "another").exists()


def test_unmounted_groups_end_the_start_for_a_retry(tmp_path: Path) -> None:
    make_home(tmp_path / "home", groups=tmp_path / "vault")
    (tmp_path / "vault").rename(tmp_path / "away")
    with pytest.raises(StorageFailed, match=f"is a link to {tmp_path}/vault, which is not there"):
        check_home(tmp_path / "home")
    assert "mount or make it" in cli_error("run", home=tmp_path / "home", code=8)


def test_a_link_below_a_groups_folder_is_still_refused(stranger: RawSender, make_host: HostFactory) -> None:
    make_host().start()
    stranger.do("a", content="first")
    secret = stranger.home / "secret.md"
    secret.write_text("not for agents")
    (stranger.home / "groups/main/summary.md").symlink_to(secret)
    reply = stranger.ask("b", request("b", "read_group_files"))
    assert reply["result"]["summary"] is None
    assert "link" in str(reply["result"]["problems"])
