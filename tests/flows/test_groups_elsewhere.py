"""Groups that lie elsewhere: behind a link that the operator makes (AM4), or in another home, which is told."""

import os
import tarfile
from pathlib import Path

import pytest

from honeybadger_host.errors import HomeError, StorageFailed
from honeybadger_host.files.home import JOURNAL_FILE, check_home, make_home
from honeybadger_host.journal.reader import LogFilter, read_log
from tests.commands import cli_error, cli_text
from tests.conftest import HostFactory
from tests.flows.world import wait_for_status
from tests.hosting import HostProcess, RawSender, assert_refused, request, run_cli, wait_for
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


WHERE = "blue, /srv/blue on machine-2"


def moved(home: Path) -> Path:
    """Let the old home know where `shop` went; return the file."""
    mark = home / "config" / "moved" / "shop.md"
    mark.parent.mkdir()
    mark.write_text(f"{WHERE}\n")
    return mark


def test_a_moved_group_says_where_it_went(host: HostProcess, home: Path) -> None:
    shop, other = RawSender(home, "shop").make(), RawSender(home, "other").make()
    shop.do("n1", content="before it went")
    mark = moved(home)
    wait_for_status(home, lambda text: "moved     shop" in text)
    for number, (kind, members) in enumerate([("update_memory", {"content": "lost"}), ("get_context", {})]):
        reply = shop.ask(f"m{number}", request(f"m{number}", kind, payload=members))
        assert_refused(reply, "not_found", says=f"another home: {WHERE}", field="group")
    operator = RawSender(home, "shop", sender="operator").make()
    operator.say("t1", "as on the page")
    assert_refused(operator.reply("t1"), "not_found", says=f"another home: {WHERE}", field="group")
    other.do("o1", content="of another group")
    assert WHERE in run_cli("doctor", home=home).stdout
    assert "before it went" in cli_text("context", "shop", home=home)
    mark.unlink()
    wait_for_status(home, lambda text: "moved     shop" not in text)
    shop.do("n2", content="it came back")
    assert "lost" not in shop.memory_text()


def test_a_moved_group_is_not_curated_until_it_returns(make_host: HostFactory, home: Path) -> None:
    boxes = [RawSender(home, group).make() for group in ("other", "shop")]  # `shop` changed last: it would be first
    with make_host({"consolidation.memory_window": 0}) as host:
        host.start()
        for box in boxes:
            for number in range(12):
                box.do(f"t{number}", "append_turn", role="user", content=f"turn {number}")
    mark = moved(home)
    make_host({"consolidation.memory_window": 4}).start()
    history = home / "groups" / "shop" / "HISTORY.md"
    wait_for((home / "groups" / "other" / "HISTORY.md").exists, what="the other group is consolidated")
    assert not history.exists()
    mark.unlink()
    wait_for(history.exists, what="it is consolidated, too")


@pytest.mark.parametrize(("words", "code"), [("consolidate shop", 9), ("dream shop", 9), ("import shop {vault}", 1)])
def test_the_operator_hears_where_a_group_went(words: str, code: int, home: Path, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("A note.\n")
    (home / "groups" / "shop").mkdir()
    moved(home)
    said = cli_error(*words.format(vault=tmp_path / "note.md").split(), home=home, code=code)
    assert f"the group shop went to another home: {WHERE}" in said
