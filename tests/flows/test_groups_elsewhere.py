"""Groups that lie elsewhere, behind a link that the operator makes (AM4)."""

import os
import tarfile
from pathlib import Path

import pytest

from honeybadger_host.errors import HomeError, StorageFailed
from honeybadger_host.files.home import JOURNAL_FILE, check_home, make_home
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.commands import cli_error, cli_text
from tests.conftest import HostFactory
from tests.hosting import RawSender, request, run_cli, wait_for
from tests.people import save


def _search(sender: RawSender, query: str) -> list[str]:
    name = os.urandom(8).hex()
    reply = sender.ask(name, request(name, "search_memory", payload={"query": query}))
    return [hit["text"] for hit in reply["result"]["hits"]]


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
    cli_text("backup", tmp_path / "packed.tar.gz", home=stranger.home)
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


def test_groups_that_are_unmounted_are_not_taken_for_deleted(
    make_host: HostFactory, stranger: RawSender, home: Path, tmp_path: Path
) -> None:
    vault = tmp_path / "vault"
    (home / "groups").rename(vault)
    (home / "groups").symlink_to(vault)
    host = make_host().start()
    stranger.do("n1", content="before")
    vault.rename(tmp_path / "away")
    vault.mkdir()  # the place where it was mounted
    assert host.wait() == 8
    assert f"{home}/groups/ was removed or replaced" in host.log_text().splitlines()[-1]
    assert "mount it or bring them back" in cli_error("run", home=home, code=8)
    assert "problem   home: " in run_cli("doctor", home=home).stdout
    assert list(vault.iterdir()) == []
    vault.rmdir()
    (tmp_path / "away").rename(vault)
    host.start()
    stranger.do("n2", content="after")
    host.stop()
    assert [row.kind for row in read_log(home / JOURNAL_FILE, LogFilter(), 100)] == ["note", "note"]
