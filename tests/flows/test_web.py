"""The operators' page on a real host, without a browser: what each page shows, and what its forms change."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest

from honeybadger_agent import SyncClient
from honeybadger_agent.errors import NotFound
from honeybadger_agent.wire import Task
from honeybadger_host.files.home import make_home
from tests.commands import cli_text
from tests.flows.world import script, wait_for_status
from tests.hosting import AT_ONCE, PATIENCE, HostProcess, RawSender, run_cli, wait_for
from tests.page import Answer, Browser, Page
from tests.people import grow_old, newest_edit, save, settle

SETTINGS = {
    **AT_ONCE,
    "memory.writes": "careful=review",
    "curation.apply": "review",
    "work.scheduler.RETRY_SECONDS": 0.1,
}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}</textarea><form action=//evil>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HostProcess, Browser]]:
    """A host and a browser on its page, which writes."""
    folder = tmp_path_factory.mktemp("page") / "home"
    make_home(folder)
    with HostProcess(folder, SETTINGS) as host, Page(folder) as page:
        host.start()
        yield host, page.browser()
        assert "page.failed" not in page.log_text()
        page.stop()
        host.stop()


@pytest.fixture
def browser(place: tuple[HostProcess, Browser]) -> Browser:
    return place[1]


@pytest.fixture
def folder(place: tuple[HostProcess, Browser]) -> Path:
    """The home that the page shows."""
    return place[0].home


@pytest.fixture
def group(folder: Path) -> str:
    """A group of the test's own."""
    name = f"g{sum(1 for _ in (folder / 'groups').iterdir())}"
    (folder / "groups" / name).mkdir()
    return name


@pytest.fixture
def client(folder: Path, group: str) -> SyncClient:
    """An agent of that group."""
    return agent(folder, group)


def agent(folder: Path, group: str, sender: str = "researcher") -> SyncClient:
    (folder / "groups" / group).mkdir(exist_ok=True)
    return SyncClient(folder, group, sender, timeout_seconds=PATIENCE)


def read(browser: Browser, path: str) -> Answer:
    answer = browser.get(path)
    assert answer.status == 200, answer.words
    return answer


def test_the_groups_are_counted_and_found_by_name(browser: Browser, folder: Path) -> None:
    kitchen = agent(folder, "kitchen", "cook")
    kitchen.update_memory("likes tea")
    kitchen.save_memory("has a cat")
    kitchen.append_turn("user", "hello")
    row = read(browser, "/?named=KITCH").words.partition("Tokens today")[2]
    assert re.match(r" kitchen cook 1 [01] 1 [-\d]+ [:\d]+ UTC 0 0 ?", row), row
    assert "main" not in row
    assert "No group is called like that" in read(browser, "/?named=nothing").words


def test_a_reverting_save_is_shown_with_its_undo(browser: Browser, folder: Path) -> None:
    kitchen = agent(folder, "oven", "cook")
    path = folder / "groups" / "oven" / "MEMORY.md"
    kitchen.update_memory("likes tea")
    older = path.read_text()
    for text in ("likes rye bread", "likes <b>milk</b>"):
        kitchen.update_memory(text)
    settle(folder)
    whole = path.read_text()
    grow_old()
    save(path, older)  # as vim does that was left open
    edit = newest_edit(folder, "groups/oven/MEMORY.md")
    told = "2 notes that human may not have read went from groups/oven/MEMORY.md"
    assert told in read(browser, "/").words
    status = wait_for_status(folder, lambda text: told in text)
    assert f"honeybadger-host undo {edit.seq} brings them back" in status
    logged = cli_text("log", "oven", home=folder).splitlines()[0]
    assert f"honeybadger-host undo {edit.seq} brings back 2 notes that human may not have read" in logged
    shown = read(browser, "/g/oven/memory")
    assert told in shown.words
    browser.press(shown, "Bring them back")
    wait_for(lambda: path.read_text() == whole, what="both notes where they were")
    for forgotten in ("rye crackers", "likes rye bread"):  # the second is one of them: there is no undo any more
        cli_text("forget", "oven", "--text", forgotten, home=folder)
        for address in ("/", "/g/oven/memory"):
            assert told not in read(browser, address).words
        wait_for_status(folder, lambda text: told not in text)
    assert "brings back" not in cli_text("log", "oven", home=folder)


def test_the_first_page_lists_what_waits_with_links(browser: Browser, folder: Path) -> None:
    careful = agent(folder, "careful", "gardener")
    asked = careful.save_memory("the roses are cut in March").proposal
    (folder / "groups/careful/proposals/dream-broken.json").write_text("{")
    sender = RawSender(folder, "main", "torn").make()
    sender.drop("half", b'{"v": 1, "type": "pi')
    sender.reply("half")
    shown = read(browser, "/")
    needs = shown.words.partition(" Groups ")[0]
    assert re.search(r"dead letter not JSON: .* main/torn/half", needs), needs
    assert "write asked for the roses are cut in March careful" in needs
    assert "proposal It cannot be read: groups/careful/proposals/dream-broken.json" in needs
    assert f'href="/g/careful/review/{asked}"' in shown.text
    browser.press(read(browser, f"/g/careful/review/{asked}"), "Strike")
    (folder / "groups/careful/proposals/dream-broken.json").unlink()
    browser.post("/health/dead", {"name": "main/torn/half", "action": "drop"})
    gone = ("roses", "dream-broken", "main/torn/half")
    wait_for(lambda: not any(word in read(browser, "/").words for word in gone), what="a first page without them")


def test_a_failed_task_waits_on_the_first_page(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    failing = {"turns": [{"answers": [{"fails": "the model is on fire", "is_passing": False}]}]}
    (folder / "unlucky.json").write_bytes(orjson.dumps(failing))
    config = folder / "config/agents/unlucky.json"
    config.parent.mkdir(exist_ok=True)
    config.write_text('{"model": "scripted:unlucky.json"}')
    task = wait_for(lambda: scheduled(client, "unlucky"), what="the agent")
    assert task is not None
    browser.press(read(browser, f"/g/{group}/tasks"), f"Run {task.id} now")
    wait_for(lambda: client.list_tasks(task.id).tasks[0].state == "failed", what="the task to fail")
    assert re.search(rf"task failed Morning: [^·]*the model is on fire[^·]* {group}", read(browser, "/").words)
    config.unlink()


def test_a_context_shows_sources_and_reasons_at_any_time(browser: Browser, client: SyncClient, group: str) -> None:
    client.update_memory("likes tea")
    entry = client.save_memory("Mimi is the name of the cat")
    now = read(browser, f"/g/{group}/context?message=What+is+the+cat+called").words
    for part in ("Remembered Facts", f"groups/{group}/MEMORY.md", "whole", entry.id, "Hash of it", "likes tea"):
        assert part in now, part
    shown = client.get_context()
    client.update_memory("likes cake, too")
    then = read(browser, f"/g/{group}/context?as_of={shown.hash}").words
    assert "Difference to now" in then
    assert re.search(r"\+ - (\d\d:\d\d: )?likes cake, too", then)
    assert "is not a time" in read(browser, f"/g/{group}/context?as_of=nonsense").words


def test_all_memory_is_one_table_newest_first(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    for number in range(55):
        client.save_memory(f"fact number {number} of many", "facts/many")
    client.update_memory("a note about the facts", "Facts")
    agent(folder, group, "cook").save_memory("another", "other")
    first = read(browser, f"/g/{group}/memory")
    assert "1 to 50 of 57" in first.words
    assert first.words.index("another") < first.words.index("fact number 54") < first.words.index("fact number 7 ")
    older = re.search(r'rel="next" href="([^"]*)"', first.text)
    assert older is not None
    second = read(browser, older[1].replace("&amp;", "&"))
    assert "51 to 57 of 57" in second.words
    shown = first.words + second.words
    assert [number for number in range(55) if f"fact number {number} " not in shown] == []
    assert ("1 to 1 of 1" in read(browser, f"/g/{group}/memory?kind=notes").words) is True
    assert "1 to 1 of 1" in read(browser, f"/g/{group}/memory?author=cook").words
    assert "of 56" in read(browser, f"/g/{group}/memory?place=facts").words  # the note's section is called likewise
    assert "a note about the facts" in read(browser, f"/g/{group}/memory?place=Facts&kind=notes").words
    held = folder / f"groups/{group}/MEMORY.md"
    settle(folder)
    held.write_text(held.read_text() + "\n## House rules\nBe kind to the cat.\n")
    wait_for(lambda: "House rules" in read(browser, f"/g/{group}/memory").words, what="the person's note")
    rules = read(browser, f"/g/{group}/memory")
    assert rules.words.index("Be kind") < rules.words.index("fact number 54")  # the file's newest, without a time
    assert rules.text.count('type="checkbox" name="chosen-') == 49
    found = read(browser, f"/g/{group}/memory?query=another").words
    assert ("another other cook" in found, "fact number" in found) == (True, False)
    assert browser.get(f"/g/{group}/memory?notes=x").status == 422
    assert browser.get(f"/g/{group}/memory?kind=x").status == 422


def test_a_list_typed_below_a_note_is_shown(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    client.update_memory("tomatoes in bed 4")
    path = folder / "groups" / group / "MEMORY.md"
    save(path, path.read_text() + "\n- and basil\n  1. Genovese\n")
    shown = read(browser, f"/g/{group}/memory")
    assert "tomatoes in bed 4" in shown.words
    assert "and basil 1. Genovese" in shown.words


def test_chosen_items_are_archived_pinned_and_restored_at_once(
    browser: Browser, client: SyncClient, group: str, folder: Path
) -> None:
    for number in range(3):
        client.update_memory(f"the shelf {number} is blue")
        client.save_memory(f"the chair {number} is red")
    settle(folder)
    page = read(browser, f"/g/{group}/memory")
    form = page.form("Archive")
    chosen = dict(re.findall(r'name="(chosen-\d+)" value="([^"]*)"', page.text))
    assert len(chosen) == 6
    ids = [*chosen.values()]

    def press(action: str) -> Answer:
        answer = browser.post(form.action, {"action": action, "chosen-1": ids[0], "chosen-2": ids[-1]})
        assert answer.status == 303, answer.words
        return read(browser, answer.location)

    assert "2 pinned." in press("pin").words
    assert read(browser, f"/g/{group}/memory").words.count(" pinned ") == 2
    changed = press("unpin")  # the note has another id since it was pinned
    assert "1 unpinned. 1 not: changed meanwhile." in changed.words
    page = read(browser, f"/g/{group}/memory")
    every = dict(re.findall(r'name="(chosen-\d+)" value="([^"]*)"', page.text))
    answer = browser.post(form.action, {"action": "archive", **every})
    done = read(browser, answer.location)
    assert "6 archived." in done.words
    assert "There is nothing here yet." in done.words
    assert (client.read_group_files().memory or "").strip() == ""
    archived = read(browser, f"/g/{group}/memory?kind=archived").words
    assert ("the shelf 1 is blue" in archived, "the chair 2 is red" in archived) == (True, True)
    back = browser.press(done, "Undo")
    assert "Taken back." in back.words
    assert "1 to 6 of 6" in back.words
    assert browser.post(form.action, {"action": "archive"}).status == 422
    assert browser.post(form.action, {"action": "burn", "chosen-1": "x"}).status == 422


def test_an_entry_is_edited_pinned_archived_and_undone(browser: Browser, client: SyncClient, group: str) -> None:
    entry = client.save_memory("works in Berlin", tags=["work", "office, home"])
    page = read(browser, f"/g/{group}/entry?id={entry.id}")
    for button, says in (("Pin", "Pinned."), ("Unpin", "No longer pinned.")):
        page = browser.press(page, button)
        assert says in page.words, button
    archived = browser.press(page, "Archive")
    assert "1 archived." in archived.words
    with pytest.raises(NotFound):
        client.edit_memory(entry.id, content="x")
    assert "It is in the archive" in read(browser, f"/g/{group}/entry?id={entry.id}").words
    browser.press(archived, "Undo")
    for each in (0, 1):  # the change of the archive, and that of the entry
        browser.press(read(browser, f"/g/{group}/entry?id={entry.id}"), "Archive")
        page = read(browser, f"/g/{group}/entry?id={entry.id}")
        browser.press(page, re.findall(r'aria-label="(Undo change \d+)"', page.text)[each])
        assert client.get_memory(entry.id).archived is False
    page = read(browser, f"/g/{group}/entry?id={entry.id}")
    page = browser.press(page, "Save", content="works in Bonn")
    assert "Saved." in page.words
    assert client.get_memory(entry.id).content == "works in Bonn"
    assert client.get_memory(entry.id).tags == ["work", "office, home"]
    change = re.search(r'class="done" role="status">[^"]*href="([^"]*)"', page.text)
    assert change is not None
    difference = read(browser, change[1])
    assert '- "content": "works in Berlin"' in difference.words
    assert '+ "content": "works in Bonn"' in difference.words
    assert "operator" in difference.words
    undone = browser.press(difference, "Undo this change")
    assert client.get_memory(entry.id).content == "works in Berlin"
    browser.press(undone, "Undo this change")  # an undoing can be undone
    assert client.get_memory(entry.id).content == "works in Bonn"
    history = read(browser, f"/g/{group}/entry?id={entry.id}").words.partition("History")[2]
    assert "researcher" in history
    assert history.count("operator") >= 5
    assert "researcher" in read(browser, f"/g/{group}/blame?id={entry.id}").words


def test_of_two_entry_editors_the_second_is_told(browser: Browser, client: SyncClient, group: str) -> None:
    entry = client.save_memory("likes tea")
    page = read(browser, f"/g/{group}/entry?id={entry.id}")
    browser.press(page, "Save", content="likes green tea")
    second = browser.press(page, "Save", content="likes black tea")
    assert second.status == 409
    assert "- likes green tea + likes black tea" in second.words
    assert client.get_memory(entry.id).content == "likes green tea"
    pinned = browser.press(page, "Pin")
    assert (pinned.status, "That is not possible now" in pinned.words) == (409, True)
    browser.press(second, "Save mine over it")
    assert client.get_memory(entry.id).content == "likes black tea"
    assert browser.post(f"/g/{group}/entry/edit", {"id": entry.id, "content": "x"}).status == 422


def test_forgetting_shows_first_what_would_go(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    entry = client.save_memory("a secret wish for Xylophones")
    shown = browser.press(read(browser, f"/g/{group}/entry?id={entry.id}"), "Forget …")
    assert "Delete this permanently?" in shown.words
    assert "a secret wish for Xylophones" in shown.words
    wrong = browser.press(shown, "Delete permanently", confirm="yes")
    assert "That was not its id. Nothing was changed." in wrong.words
    assert client.get_memory(entry.id).content == "a secret wish for Xylophones"
    done = browser.press(wrong, "Delete permanently", confirm=entry.id)
    assert "nothing of it is left" in done.words
    assert b"Xylophones" not in (folder / "data" / "journal.db").read_bytes()


def test_a_note_has_history_archive_and_forget(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    client.update_memory("likes tea")
    agent(folder, group, "cook").update_memory("likes cake")
    assert "likes cake" not in read(browser, f"/g/{group}/memory?author=researcher").words
    settle(folder)
    cake = browser.press(note_page(browser, group, "cook"), "Save", content="likes carrot cake")
    history = cake.words.partition("History")[2]
    assert ("operator" in history, "cook" in history) == (True, True)
    browser.press(cake, "Archive")
    assert "cake" not in (client.read_group_files().memory or "")
    shown = browser.press(note_page(browser, group, "researcher"), "Forget …")
    assert "likes tea" in shown.words
    seq = shown.form("Delete permanently").fields["id"]
    assert "nothing of it is left" in browser.press(shown, "Delete permanently", confirm=seq).words
    assert "likes tea" not in (client.read_group_files().memory or "")
    client.update_memory("likes jam\nand bread")
    blame = read(browser, f"/g/{group}/blame").words
    assert re.search(r"likes jam and bread researcher [-\d]+ [:\d]+ UTC \d+", blame), blame
    held = folder / "groups" / group / "MEMORY.md"
    held.write_text(held.read_text().replace("likes jam", "likes plum jam"))
    listed = f"/g/{group}/memory?kind=notes&author=human"
    wait_for(lambda: "likes plum jam" in read(browser, listed).words, what="the note is the person's")


def note_page(browser: Browser, group: str, author: str) -> Answer:
    """Return the page of the newest note of an author."""
    listed = read(browser, f"/g/{group}/memory?kind=notes&author={author}").text
    return read(browser, re.findall(r'href="([^"]*/entry\?id=MEMORY[^"]*)"', listed)[0])


def test_of_two_editors_the_second_sees_changes(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    client.update_memory("likes tea\nand milk")
    settle(folder)
    page = note_page(browser, group, "researcher")
    assert ">\nlikes tea\nand milk</textarea>" in page.text
    done = browser.press(page, "Save", content="likes green tea\nand milk")
    assert "Saved." in done.words
    assert "likes green tea" in done.words
    [id_] = re.findall(r'name="id" value="(MEMORY[^"]*)"', page.text)[:1]
    back = browser.get(f"/g/{group}/entry?id={quote(id_)}")
    assert "likes green tea" in read(browser, back.location).words
    second = browser.press(page, "Save", content="likes black tea\nand milk")
    assert second.status == 409
    assert "- likes green tea + likes black tea and milk Yours" in second.words
    memory = client.read_group_files().memory or ""
    assert "likes green tea" in memory
    assert "(operator, " in memory
    browser.press(second, "Save mine over it", content="likes black tea\nand milk")
    assert "likes black tea" in (client.read_group_files().memory or "")
    browser.press(note_page(browser, group, "operator"), f"Undo change {newest_note_edit(browser, group)}")
    assert "likes green tea" in (client.read_group_files().memory or "")
    held = folder / "groups" / group / "MEMORY.md"
    opened = note_page(browser, group, "operator")
    held.write_text(held.read_text().replace("likes green tea", "likes white tea"))
    newest_edit(folder, f"groups/{group}/MEMORY.md")
    third = browser.press(opened, "Save", content="likes cold tea\nand milk")
    assert "- likes white tea + likes cold tea and milk Yours" in third.words
    for count, text in enumerate((f"Our rules.\n\n{held.read_text().lstrip()}", "Our rules.\n"), 2):
        held.write_text(text)
        newest_edit(folder, f"groups/{group}/MEMORY.md", count)
    gone = browser.press(page, "Save", content="likes no tea")
    assert (gone.status, "likes no tea</textarea>" in gone.text) == (404, True)
    assert held.read_text() == "Our rules.\n"


def newest_note_edit(browser: Browser, group: str) -> str:
    listed = read(browser, f"/g/{group}/timeline?kind=note_edited").text
    return str(re.findall(r'href="/change/(\d+)"', listed)[0])


def test_a_waiting_write_is_accepted_with_other_text(browser: Browser, folder: Path) -> None:
    client = agent(folder, "careful")
    asked = [client.save_memory(f"{name} likes the colour blue").proposal for name in ("Ann", "Bob", "Cid")]
    assert "Ann likes the colour blue by researcher" in read(browser, "/g/careful/review").words
    listed = read(browser, "/?named=careful").words
    assert re.search(r"UTC|nothing yet", listed)
    assert " 3 0" in listed
    first, second, third = (read(browser, f"/g/careful/review/{name}") for name in asked)
    assert "+ Ann likes the colour blue" in first.words
    done = browser.press(first, "Accept with this text", result="Ann likes the colour green")
    assert "Accepted with your text." in done.words
    assert "Struck." in browser.press(second, "Strike").words
    applied = browser.press(third, "Accept")
    assert "Accepted." in applied.words
    entries = read(browser, "/g/careful/memory").words
    assert ["Ann likes the colour green" in entries, "Bob" in entries, "Cid" in entries] == [True, False, True]
    again = browser.press(first, "Accept")
    assert (again.status, "is applied" in again.words) == (409, True)
    shrug = browser.post(f"/g/careful/review/{asked[0]}/decide", {"operation": 1, "decision": "shrug"})
    assert shrug.status == 422
    assert "Nothing waits for a decision." in read(browser, "/g/careful/review").words
    assert "1 applied" in read(browser, "/g/careful/review?every=1").words
    assert "Taken back." in browser.press(applied, "Take back all that was applied").words
    assert "Cid" not in read(browser, "/g/careful/memory").words


def test_copies_are_accepted_and_reverted_whole(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    for category in ("a", "b"):
        client.save_memory("Carl drinks green tea at 16:00, without sugar.", category)
        client.save_memory("The garage of the harbour opens at 7:00.", category)
    run_cli("dream", group, home=folder)
    proposal = re.search(rf'href="(/g/{group}/review/dream[^"]*)"', read(browser, f"/g/{group}/review").text)
    assert proposal is not None
    done = browser.press(read(browser, proposal[1]), "Accept the 2 that are copies")
    assert "Accepted all that are copies." in done.words
    assert len(client.list_memory_entries().entries) == 2
    tea = client.search_memory("green tea").hits[0].id
    client.edit_memory(tea, content="Carl drinks black tea.")
    name = proposal[1].rpartition("/")[2]
    back = browser.press(read(browser, f"/g/{group}/review/{name}"), "Take back all that was applied")
    assert "Taken back. Later changes stay in 1 file." in back.words
    assert len(client.list_memory_entries().entries) == 5


def scheduled(client: SyncClient, agent: str) -> Task | None:
    """Return a new task; None: its agent is not known yet."""
    at_nine = "0 9 * * *"
    try:
        return client.schedule_task(
            "Morning", "say good morning", "cron", cron_expression=at_nine, time_zone="UTC", agent=agent
        )
    except NotFound:
        return None


@pytest.fixture
def worker(place: tuple[HostProcess, Browser]) -> Iterator[str]:
    """An agent with a model: the offline model does no tasks."""
    home = place[0].home
    script(home, {"answers": [{"text": "Good morning"}]})
    file = home / "config/agents/worker.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"model": "scripted:script.json"}')
    yield "worker"
    file.unlink()


def test_tasks_are_paused_resumed_run_and_cancelled(
    browser: Browser, client: SyncClient, group: str, worker: str
) -> None:
    task = wait_for(lambda: scheduled(client, worker), what="the agent")
    page = read(browser, f"/g/{group}/tasks")
    assert task is not None
    assert page.words.count("09:00 UTC") == 5
    assert "say good morning" in read(browser, f"/g/{group}/tasks/{task.id}").words
    for action, state in (("Pause", "paused by operator"), ("Resume", "waiting")):
        page = browser.press(page, f"{action} {task.id}")
        assert f"Morning {state} " in page.words, action
    page = browser.press(page, f"Run {task.id} now")
    wait_for(lambda: (row := client.list_tasks(task.id).tasks[0]).runs == 1 and "done" in row.state)
    asked = browser.press(page, f"Cancel {task.id}")
    assert "It cannot be undone: groups/" in asked.words
    assert client.list_tasks().tasks[0].id == task.id
    assert "There are no tasks." in browser.press(asked, "Cancel it").words
    assert browser.post(f"/g/{group}/tasks/act", {"task": "none", "action": "cancel"}).status == 404
    assert browser.post(f"/g/{group}/tasks/act", {"task": "none", "action": "run"}).status == 404


def test_the_timeline_pages_back_and_rewinds(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    for number in range(55):
        client.update_memory(f"note {number}")
    newest = read(browser, f"/g/{group}/timeline?by=researcher")
    assert "note 54" in newest.words
    further = re.search(r'rel="next" href="([^"]*)"', newest.text)
    assert further is not None
    older = read(browser, further[1].replace("&amp;", "&")).words
    assert "note 0" in older
    assert "note 54" not in older
    first = re.findall(r'href="/change/(\d+)"', newest.text)[-1]
    settle(folder)
    shown = browser.press(newest, "Show what would change", to=first)
    assert "Bring back to change" in shown.words
    assert "note 54" in (client.read_group_files().memory or "")
    assert "Brought back to" in browser.press(shown, "Bring back all 1").words
    assert "note 54" not in (client.read_group_files().memory or "")
    assert "kind" in read(browser, "/timeline?kind=note").text
    assert browser.get("/change/99999999").status == 404


def test_health_lists_dead_letters_to_retry_or_drop(place: tuple[HostProcess, Browser], browser: Browser) -> None:
    host = place[0]
    sender = RawSender(host.home, "main", "broken").make()
    sender.drop("bad", HOSTILE.encode() + "\u202e".encode() + b"\xff")
    sender.reply("bad")
    shown = read(browser, "/health")
    assert ("main/broken/bad" in shown.words, "Nothing is over a limit" in shown.words) == (True, False)
    assert ("\\u202e" in shown.text, "<script>alert" in shown.text) == (True, False)
    wait_for(lambda: "inbox.found info" in read(browser, "/health").words.partition(" Log ")[2])
    assert "It is back in its inbox." in browser.press(shown, "Try again").words
    (sender.requests / "link.json").symlink_to(host.home)
    sender.reply("bad")
    wait_for(lambda: "main/broken/link" in read(browser, "/health").words)
    gone = browser.press(read(browser, "/health"), "Delete permanently").words
    assert ("Deleted." in gone, "main/broken/bad" in gone) == (True, False)
    assert ("cannot be tried again" in gone, "Try again" in gone) == (True, False)
    again = browser.post("/health/dead", {"name": "main/broken/link", "action": "retry"})
    assert (again.status, "main/broken/link cannot be tried again" in again.words) == (409, True)
    assert browser.post("/health/dead", {"name": "main/../../x", "action": "drop"}).status == 404
    assert "served by process" in read(browser, "/health/doctor").words


def test_a_budget_is_told_once(tmp_path: Path) -> None:
    make_home(tmp_path)
    with HostProcess(tmp_path, {"model.curation": "scripted:none.json"}) as host, Page(tmp_path) as page:
        host.start()
        browser = page.browser()
        wait_for(lambda: browser.get("/health").text.count("curation.tokens_per_day") == 1)


def test_a_person_talks_to_an_agent_and_gives_feedback(browser: Browser, group: str) -> None:
    form = read(browser, f"/g/{group}/talk?session=s1").form("Send")
    said = browser.post(form.action, {**form.fields, "content": "remember that I like jazz", "as": "ann"})
    assert said.status == 303
    streamed = browser.get(said.location.partition("#")[0].replace("/talk?", "/talk/answer?"))
    assert streamed.headers["Content-Type"].startswith("text/event-stream")
    assert streamed.text.endswith("event: ended\ndata: null\n\n")
    talk = read(browser, f"/g/{group}/talk?session=s1")
    assert "ann" in talk.words
    assert "I like jazz" in talk.words.partition("turn 2")[0] + talk.words.partition("turn 2")[2]
    why = re.search(r'href="([^"]*/why[^"]*)"', talk.text)
    assert why is not None
    leads = browser.get(why[1].replace("&amp;", "&")).location
    assert "byte for byte what was served" in read(browser, leads).words
    leads = browser.get(f"/g/{group}/why?session=s1&turn=99").location
    assert "is not kept" in browser.get(leads).text
    told = browser.press(talk, "Correct it", content="Don't say jazz, say swing")
    assert "memory learns from it" in told.words
    kinds = read(browser, f"/g/{group}/timeline?kind=feedback").words
    assert "say swing" in kinds


def test_hostile_memory_is_text_on_every_page(browser: Browser, client: SyncClient, group: str, folder: Path) -> None:
    entry = client.save_memory(HOSTILE, tags=["<b>"], title=HOSTILE[:150], origin="web", origin_from=HOSTILE)
    client.update_memory(HOSTILE, HOSTILE[:60])
    client.append_turn("user", HOSTILE, sender="<u>eve</u>")
    (folder / "groups" / group / "CLAUDE.md").write_text(f"{HOSTILE}\n\u202edesrever\u200b {'x' * 1_000_000}\n")
    for name in ("context?message=script", "memory", f"entry?id={entry.id}", "search?query=script", "timeline", "talk"):
        text = read(browser, f"/g/{group}/{name}").text
        for forged in ("<script>alert", "<img", "</textarea><form", "<b>", "<u>", "onerror=alert(2)>"):
            assert forged not in text, (name, forged)
        assert len(text) < 700_000, name
    notes = read(browser, f"/g/{group}/memory?kind=notes").text
    assert '<span class="hidden-character">U+202E</span>' in notes
    assert "\u202e" not in notes


def test_without_a_host_typed_text_is_kept(home: Path, host: HostProcess) -> None:
    with Page(home) as page:
        browser = page.browser()
        assert read(browser, "/g/main/memory").status == 200
        assert "Nothing has changed yet." in read(browser, "/timeline").words
        assert "No change from number 0 on is like that." in read(browser, "/timeline?by=nobody").words
        host.kill()
        for path in ("/", "/g/main/memory", "/g/main/context", "/health"):
            got = browser.get(path)
            assert (got.status, "The host is down" in got.words, got.headers["Retry-After"]) == (503, True, "3"), path
            assert '<meta http-equiv="refresh" content="3">' in got.text
        lost = browser.post("/g/main/entry/edit", {"id": "abcd", "version": "v", "content": "precious words"})
        assert (lost.status, "precious words" in lost.words, lost.headers["Retry-After"]) == (503, True, None)
        assert "abcd" not in lost.words  # nobody typed it
        assert "reloads until then" not in lost.words  # it is not sent again
        assert not [*(home / "data" / "ipc" / "main" / "operator" / "requests").iterdir()]
        host.restart()
        assert read(browser, "/g/main/memory").status == 200


def test_a_host_starts_and_ends_the_page(home: Path) -> None:
    link = home / "data" / "page.json"
    with HostProcess(home, {"web.enabled": True, "web.port": 0}).start() as host:
        wait_for(link.exists)
        other = orjson.loads(link.read_bytes())
        browser = Page(home).browser(link=other["link"])
        assert read(browser, "/").status == 200
        assert browser.post("/undo", {"seq": "1"}).status == 403
        host.kill()
        assert browser.get("/").status == 503
        host.start()
        wait_for(lambda: browser.get("/").status == 200)
        assert orjson.loads(link.read_bytes())["pid"] == other["pid"]
        os.kill(other["pid"], signal.SIGTERM)
        wait_for(lambda: not link.exists())
        host.restart()
        wait_for(link.exists)
        browser = Page(home).browser(link=orjson.loads(link.read_bytes())["link"])
        assert read(browser, "/").status == 200  # before that a signal finds no handler, and leaves the link
        host.stop()
        wait_for(lambda: not link.exists())
