"""Closed mode with real users: what a sender's uid may do in the home, tried by processes of that uid.

Three users take part: the host's (root, or one with two capabilities), Alice's and Bob's. Every attempt that must fail
is tried by somebody who may, too: an attempt that fails for everybody would prove nothing.
"""

import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from honeybadger_host.files.home import make_home
from tests.commands import cli_error, cli_text
from tests.hosting import AGENT, HostProcess, RawSender, assert_refused, request, run, run_cli, status_of, wait_for

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux",
    reason="processes of other users can be started by root only: run the tests as root, as in a container",
)

HOST, ALICE, BOB = 64_801, 64_802, 64_803
SECRET = "between Bob and the host"

WITH_TWO_CAPABILITIES = f"""
import ctypes, os, struct
libc = ctypes.CDLL(None)
libc.prctl(8, 1)  # PR_SET_KEEPCAPS
os.setgroups([]); os.setresgid({HOST}, {HOST}, {HOST}); os.setresuid({HOST}, {HOST}, {HOST})
chown_and_dac_override = 0b11
sets = struct.pack("6I", chown_and_dac_override, chown_and_dac_override, 0, 0, 0, 0)
assert libc.capset(struct.pack("Ii", 0x20080522, 0), sets) == 0
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
libc.prctl(4, 1)  # PR_SET_DUMPABLE, as it is after an exec
"""
# Name -> uid of the host, and the program with which its process becomes that user.
HOSTS = {"root": (0, ""), "a user with two capabilities": (HOST, WITH_TWO_CAPABILITIES)}


def run_as(uid: int, source: str, **variables: object) -> Any:
    """Run a program as another user; return what it prints as JSON.

    It imports as root, for that user may not be able to reach this interpreter's libraries.
    """
    names = "".join(f"{name} = {value!r}\n" for name, value in variables.items())
    program = (
        "import json, os, sys, socket, fcntl, shutil\nfrom pathlib import Path\n"
        "from honeybadger_agent import SyncClient, errors, wire\nimport asyncio, importlib.metadata, time\n"
        f"os.setgroups([]); os.setgid({uid}); os.setuid({uid})\n{names}{source}"
    )
    ran = run([*AGENT, "--program", program])
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout or "null")


@dataclass(frozen=True)
class Place:
    """A home in closed mode with Alice and Bob in the group `main`, each with files of theirs in it."""

    home: Path
    host: HostProcess
    alice: RawSender
    bob: RawSender

    @property
    def folder(self) -> Path:
        return self.home.parent

    def add(self, group: str, sender: str, uid: int) -> RawSender:
        cli_text("sender", "add", group, sender, "--uid", uid, home=self.home)
        return RawSender(self.home, group, sender)


BY_EACH_HOST = pytest.mark.parametrize("place", HOSTS, indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A home in closed mode, served by root; for what a host may do only with its capabilities, by each of `HOSTS`."""
    host_uid, source = HOSTS[getattr(request, "param", "root")]
    folder = Path(tempfile.mkdtemp(prefix="hb-"))
    folder.chmod(0o755)
    home = folder / "home"
    make_home(home)
    for path in (home, *home.rglob("*")):
        os.chown(path, host_uid, host_uid)
    with HostProcess(home, {"ipc.closed": True}, source=source) as host:
        made = Place(home, host, RawSender(home, "main", "alice"), RawSender(home, "main", "bob"))
        made.add("main", "alice", ALICE)
        made.add("main", "bob", BOB)
        host.start()
        yield made
        host.stop()
        host.log_lines()
    shutil.rmtree(folder)


HONEST_WORK = """
os.umask(mask)
client = SyncClient(home, "main", who)
note = client.update_memory(f"{who} was here", section="Visits")
client.append_turn("user", f"{who} says hello")
context = client.get_context("hello?")
before = client.request("ping", {}, request_id="kept")
later = json.dumps({"v": 1, "id": "later", "type": "ping"}).encode()
client.mailbox.publish("later", later)
reply = Path(home, "data/ipc/main", who, "replies/later.json")
while not reply.exists():
    time.sleep(0.005)
status = reply.stat()
text = reply.read_text()
reply.unlink()
print(json.dumps([note.file, f"{who} was here" in context.system, before.ok, status.st_uid, status.st_mode & 0o777,
    json.loads(text)["ok"], os.listdir(reply.parent)]))
"""


@BY_EACH_HOST
def test_a_sender_does_its_honest_work_whatever_its_umask(place: Place) -> None:
    masks = (0o000, 0o022, 0o777)
    for mask in masks:
        for who, uid in (("alice", ALICE), ("bob", BOB)):
            done = run_as(uid, HONEST_WORK, home=str(place.home), who=who, mask=mask)
            assert done == ["MEMORY.md", True, True, uid, 0o600, True, []]
    notes = re.findall(r"^## Visits \((.*), .*\)\n- (.*) was here$", place.alice.memory_text(), re.MULTILINE)
    assert notes == [("alice", "alice"), ("bob", "bob")] * len(masks)


# What the owner of a box may do there, and nobody else.
IN_A_BOX = {
    "list its requests": "os.listdir(box / 'requests')",
    "list its replies": "os.listdir(box / 'replies')",
    "list the group": "os.listdir(box.parent)",
    "read a request": "(box / 'turns' / 'waiting').read_bytes()",
    "read a draft": "(box / 'tmp' / 'draft').read_bytes()",
    "read a reply": "(box / 'replies' / 'r.json').read_bytes()",
    "look at a reply": "(box / 'replies' / 'r.json').stat()",
    "write a request": "(box / 'requests' / '.forged').write_bytes(b'x')",
    "write a reply": "(box / 'replies' / 'forged.json').write_bytes(b'{}')",
    "write a draft": "(box / 'tmp' / 'forged').write_bytes(b'x')",
    "change a draft": "(box / 'tmp' / 'draft').open('ab').write(b'x')",
    "change a reply": "(box / 'replies' / 'r.json').open('r+b').write(b'x')",
    "rename a draft": "(box / 'tmp' / 'draft').rename(box / 'tmp' / 'renamed')",
    "rename a request": "(box / 'turns' / 'waiting').rename(box / 'turns' / 'renamed')",
    "link a draft": "os.link(box / 'tmp' / 'linked', mine / 'tmp' / 'linked')",
    "remove a request": "(box / 'turns' / 'second').unlink()",
    "remove a reply": "(box / 'replies' / 'second.json').unlink()",
    "remove a draft": "(box / 'tmp' / 'second').unlink()",
    "make a link there": "(box / 'requests' / '.link').symlink_to('/etc/passwd')",
    "open its folders": "(box / 'requests').chmod(0o777)",
    "take a draft over": "(box / 'tmp' / 'third').rename(mine / 'tmp' / 'third')",
}

# What only the host may do; destructive ones last.
IN_THE_HOME = {
    "list the home": "os.listdir(home)",
    "list the boxes": "os.listdir(home / 'data' / 'ipc')",
    "list the data": "os.listdir(home / 'data')",
    "list the groups": "os.listdir(home / 'groups')",
    "read the memory": "(home / 'groups/main/MEMORY.md').read_bytes()",
    "write the memory": "(home / 'groups/main/MEMORY.md').open('ab').write(b'x')",
    "read the persona": "(home / 'groups/main/CLAUDE.md').read_bytes()",
    "write the persona": "(home / 'groups/main/CLAUDE.md').write_bytes(b'x')",
    "write a summary": "(home / 'groups/main/summary.md').write_bytes(b'x')",
    "make a persona for all": "(home / 'groups' / 'global').mkdir()",
    "make a context for all": "(home / 'AGENT.md').write_bytes(b'x')",
    "read the journal": "(home / 'data/journal.db').read_bytes()",
    "write the journal": "(home / 'data/journal.db').open('r+b')",
    "read the journal's log": "(home / 'data/journal.db-wal').read_bytes()",
    "read its index": "(home / 'data/journal.db-shm').open('r+b')",
    "read a conversation": "(home / 'data/sessions/main/main.jsonl').read_bytes()",
    "list the dead letters": "os.listdir(home / 'data' / 'dead')",
    "read a dead letter": "(home / 'data/dead/main/bob/dead.json').read_bytes()",
    "make a dead letter": "(home / 'data/dead/main/bob/forged.json').write_bytes(b'{}')",
    "read the configuration": "(home / 'config/honeybadger.toml').read_bytes()",
    "write the configuration": "(home / 'config/honeybadger.toml').open('ab').write(b'#')",
    "read the senders": "(home / 'config/senders.json').read_bytes()",
    "write the senders": "(home / 'config/senders.json').open('r+b')",
    "read the status": "(home / 'data/status.json').read_bytes()",
    "hold the lock": "fcntl.flock(os.open(home / 'data/host.lock', os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "make a file in the home": "(home / 'new').write_bytes(b'x')",
    "make a file in the data": "(home / 'data' / 'new').write_bytes(b'x')",
    "make a sender": "(home / 'data/ipc/main/carol').mkdir()",
    "make a group": "(home / 'data/ipc/kitchen').mkdir()",
    "make the reserved group": "(home / 'data/ipc/global').mkdir()",
    "make a folder in its own box": "(mine / 'more').mkdir()",
    "put a link for its own folder": "(mine / 'requests').rename(mine / 'aside')",
    "give its box away": "os.chown(mine, uid, uid)",
    "open its box": "mine.chmod(0o777)",
    "open the group": "mine.parent.chmod(0o777)",
    "rename another's box": "(mine.parent / 'bob').rename(mine.parent / 'mallory')",
    "exchange the boxes": "(home / 'data' / 'ipc').rename(home / 'data' / 'ipc2')",
    "remove the journal": "(home / 'data' / 'journal.db').unlink()",
}

# What only root and the host's own user may do to its process.
TO_THE_PROCESS = {
    "signal it": "os.kill(pid, 0)",
    "read its memory": "open(f'/proc/{pid}/mem', 'rb')",
    "list its open files": "os.listdir(f'/proc/{pid}/fd')",
    "read its environment": "open(f'/proc/{pid}/environ', 'rb').read()",
}

TRY_ALL = """
uid, home, box, mine = os.getuid(), Path(home), Path(box), Path(mine)
results = {}
for name, source in attempts.items():
    try:
        exec(source)
    except OSError as error:
        results[name] = type(error).__name__
    else:
        results[name] = "done"
print(json.dumps(results))
"""


def _fill(place: Place) -> None:
    """Put into Bob's box and the home what the attempts are after."""
    for stem in ("dead", "note"):
        _drop(place.bob, stem, b"[]" if stem == "dead" else request("note", content=SECRET), BOB)
        place.bob.reply(stem)
    _drop(place.bob, "turn", request("turn", "append_turn", payload={"role": "user", "content": SECRET}), BOB)
    assert place.bob.reply("turn")["ok"] is True
    for name in (
        *("turns/waiting", "turns/second", "replies/r.json", "replies/second.json"),
        *("tmp/draft", "tmp/second", "tmp/third", "tmp/linked"),
    ):
        path = place.bob.root / name
        path.write_text(SECRET)
        os.chown(path, BOB, BOB)
        path.chmod(0o666)  # its folder alone protects it
    wait_for((place.home / "data" / "status.json").exists)


def _drop(sender: RawSender, stem: str, data: bytes, uid: int) -> None:
    """Drop a request as a file of `uid`, however it came there."""
    path = sender.root / "tmp" / stem
    path.write_bytes(data)
    os.chown(path, uid, uid)
    path.rename(sender.requests / f"{stem}.json")


def _tried(
    uid: int, place: Place, attempts: dict[str, str], home: Path | None = None, box: str = "bob"
) -> dict[str, str]:
    """Try all in Alice's name; return what came of each."""
    home = home or place.home
    boxes = home / "data" / "ipc" / "main"
    where = {"home": str(home), "box": str(boxes / box), "mine": str(boxes / "alice"), "pid": place.host.pid}
    tried: dict[str, str] = run_as(uid, TRY_ALL, attempts=attempts, **where)
    return tried


@BY_EACH_HOST
def test_no_sender_reads_writes_or_fakes_anothers(place: Place) -> None:
    _fill(place)
    everything = IN_THE_HOME | IN_A_BOX | TO_THE_PROCESS
    assert _tried(ALICE, place, everything) == dict.fromkeys(everything, "PermissionError")
    assert (place.bob.root / "tmp" / "draft").read_text() == SECRET
    # the controls: whoever owns a home may do all of that in it, and Bob in his box, but for what is in Alice's
    copy = place.folder / "copy"
    shutil.copytree(place.home, copy, ignore=shutil.ignore_patterns(".*.tmp"))  # what the host is replacing just now
    to_root = IN_THE_HOME | TO_THE_PROCESS
    assert _tried(0, place, to_root, copy) == dict.fromkeys(to_root, "done")
    not_his = dict.fromkeys(("list the group", "link a draft", "take a draft over"), "PermissionError")
    assert _tried(BOB, place, IN_A_BOX) == {**dict.fromkeys(IN_A_BOX, "done"), **not_his}


def _by_a_hard_link(place: Place, theirs: Path) -> None:
    os.link(theirs, place.alice.requests / "x.json")  # as where the kernel does not protect hard links


def _by_a_rename(place: Place, theirs: Path) -> None:
    """From a folder that all may write to, by Alice herself."""
    shared = place.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    theirs.rename(shared / "x")
    move = f"os.rename({str(shared / 'x')!r}, {str(place.alice.requests / 'x.json')!r})"
    run_as(ALICE, move)


@BY_EACH_HOST
@pytest.mark.parametrize("way", [_by_a_hard_link, _by_a_rename], ids=["hard link", "rename"])
def test_another_users_file_is_never_a_senders_request(place: Place, way: Callable[[Place, Path], None]) -> None:
    owner = BOB if way is _by_a_rename else 0
    theirs = place.folder / "theirs"
    theirs.write_bytes(request("x", content=SECRET))
    os.chown(theirs, owner, owner)
    theirs.chmod(0o600)
    way(place, theirs)
    reply = place.alice.reply("x")
    assert_refused(reply, "forbidden", says=f"uid {owner}, this box to {ALICE}")
    place.alice.wait_until_taken("x")
    assert SECRET not in json.dumps(reply)
    assert SECRET not in place.alice.memory_text()
    if way is _by_a_hard_link:
        assert theirs.exists()
        assert os.listdir(place.alice.dead) == ["x.reason.json"]  # not read, and where it was
    else:
        assert (place.alice.dead / "x.json").read_bytes() == request("x", content=SECRET)  # nothing is lost
        assert "somebody else's" in cli_error("dead", "retry", "main/alice/x", home=place.home)
        assert os.listdir(place.alice.requests) == []
    _drop(place.alice, "x", request("x", content="her own"), ALICE)
    wait_for(lambda: "- her own" in place.alice.memory_text())


def test_a_sender_with_open_folders_signs_only_its_files(place: Place) -> None:
    run_as(ALICE, f"[Path({str(place.alice.root)!r}, name).chmod(0o777) for name in ('tmp', 'requests', 'replies')]")
    forge = f"""
os.umask(0)
box = Path({str(place.alice.root)!r})
(box / "tmp" / "f").write_bytes({request("f", content="as Alice")!r})
(box / "tmp" / "f").rename(box / "requests" / "f.json")
"""
    run_as(BOB, forge)
    assert_refused(place.alice.reply("f"), "forbidden", says=f"uid {BOB}")
    assert "as Alice" not in place.alice.memory_text()


@BY_EACH_HOST
def test_modes_of_a_senders_folders_affect_nobody_else(place: Place) -> None:
    """Sticky folders, for one, keep a host that is not root from removing and renaming in them."""
    folders = f"[Path({str(place.alice.root)!r}, name) for name in ('tmp', 'requests', 'replies')]"
    sent = []
    for mode in (0o1777, 0o2770, 0o4700, 0o1700, 0o000):
        run_as(ALICE, f"[folder.chmod({mode}) for folder in {folders}]")
        sent.append(f"at-{mode:04o}")
        _drop(place.alice, sent[-1], request(sent[-1], content=sent[-1]), ALICE)
        _drop(place.bob, sent[-1], request(sent[-1], "ping"), BOB)
        assert place.bob.reply(sent[-1])["ok"] is True
    run_as(ALICE, f"[folder.chmod(0o700) for folder in {folders}]")
    for stem in sent:
        assert place.alice.reply(stem, 30)["ok"] is True
    notes = [line for line in place.alice.memory_text().splitlines() if line.startswith("- ")]
    assert sorted(notes) == sorted(f"- {stem}" for stem in sent)  # each once, however often its reply was tried


def test_a_box_without_the_operators_word_is_not_served(place: Place) -> None:
    carol = RawSender(place.home, "main", "carol").make()
    reserved = RawSender(place.home, "global", "alice").make()
    for sender in (carol, reserved):
        for path in (sender.root, *sender.root.iterdir()):
            os.chown(path, ALICE, ALICE)
        _drop(sender, "x", request("x", content="made by hand"), ALICE)
    place.host.wait_for_event("inbox.ignored")
    _drop(place.alice, "x", request("x", content="known"), ALICE)
    assert place.alice.reply("x")["ok"] is True
    assert os.listdir(carol.requests) == os.listdir(reserved.requests) == ["x.json"]
    assert "made by hand" not in place.alice.memory_text()


def test_nobody_sends_from_the_reserved_group(place: Place) -> None:
    for uid in (-3, -1, 2**32 - 1, 99_999_999_999):
        assert run_cli("sender", "add", "main", "dora", "--uid", uid, home=place.home).returncode == 2
    assert not (place.home / "data/ipc/main/dora").exists()
    assert run_cli("sender", "add", "global", "alice", "--uid", ALICE, home=place.home).returncode == 2
    path = place.home / "config" / "senders.json"
    listed = json.loads(path.read_text()) | {"global/alice": {"uid": ALICE}}
    reserved = RawSender(place.home, "global", "alice").make()
    _drop(reserved, "x", request("x", content="for all"), ALICE)
    path.write_text(json.dumps(listed))
    assert_refused(reserved.reply("x"), "forbidden", says="'global'")
    assert not (place.home / "groups" / "global").exists()


@BY_EACH_HOST
def test_a_lost_replies_folder_is_remade_for_its_sender(place: Place) -> None:
    place.alice.replies.rmdir()
    _drop(place.alice, "x", request("x", "ping"), ALICE)
    assert place.alice.reply("x")["ok"] is True
    status = place.alice.replies.stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (ALICE, 0o700)


CHATTING = """
client = SyncClient(home, "main", who)
lines = []
answer = client.chat("Remember that I prefer tea", on_line=lines.append)
try:
    other = client.chat("Hello", agent="bob").content
except errors.RequestFailed as error:
    other = str(error)
print(json.dumps([answer.content, answer.tools[0].ok, [line.kind for line in lines], other]))
"""


@BY_EACH_HOST
def test_no_sender_writes_into_the_hosts_agents_boxes(place: Place) -> None:
    content, is_saved, kinds, other = run_as(ALICE, CHATTING, home=str(place.home), who="alice")
    assert is_saved
    assert "I prefer tea" in content
    assert set(kinds) <= {"began", "text", "tool_began", "tool_ended"}
    assert "there is no agent 'bob'" in other
    assert "(assistant, " in (place.home / "groups/main/MEMORY.md").read_text()
    agent = RawSender(place.home, sender="assistant")
    assert agent.root.stat().st_uid == place.home.stat().st_uid
    for uid in (ALICE, BOB):
        assert _tried(uid, place, IN_A_BOX, box="assistant") == dict.fromkeys(IN_A_BOX, "PermissionError")


def test_the_host_does_not_speak_for_another_users_sender(place: Place) -> None:
    folder = place.home / "config" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bob.json").write_text("{}")
    wait_for(lambda: "bob" in status_of(place.home)["agents"]["known"])
    *_, other = run_as(ALICE, CHATTING, home=str(place.home), who="alice")
    assert "bob was added with `honeybadger-host sender add`" in other
