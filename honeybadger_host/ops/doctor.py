"""What an operator can mend: a list of checks, each a function of the home folder."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME
from honeybadger_agent.models import split_name
from honeybadger_agent.models.model import ModelFailed
from honeybadger_agent.wording import count_of, in_words
from honeybadger_host.agents import AGENTS_FOLDER, agent_files, load_agent
from honeybadger_host.curation.directives import NAMES, check_directives, directive_file
from honeybadger_host.domain import GROUP_FILES
from honeybadger_host.errors import FileProblem, HostError, JournalError, SettingsError, WorldFailed
from honeybadger_host.memory.entry import memory_folder, parse_entry
from honeybadger_host.memory.group_files import GroupFiles
from honeybadger_host.memory.task_files import WrongSchedule, parse_task, schedule_of, task_file, tasks_of
from honeybadger_host.models import missing_extra
from honeybadger_host.ops import systemd
from honeybadger_host.ops.model_server import own_server, why_silent
from honeybadger_host.settings import Settings, host_zone, load_settings, model_key, user_folders
from honeybadger_host.spool.senders import load_senders
from honeybadger_host.storage.atomic_files import read_whole
from honeybadger_host.storage.files import printable
from honeybadger_host.storage.home import (
    CLOCK_GRACE_SECONDS,
    JOURNAL_FILE,
    STATUS_FILE,
    check_home,
    is_served,
    read_holder,
)
from honeybadger_host.storage.journal_reader import check_journal

Level = Literal["ok", "warning", "problem"]

_WITHOUT_EVENTS: Final = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "fuse.sshfs", "vboxsf"}
_MOUNTABLE: Final = ("data", "data/ipc", "data/dead", "groups")
"""Folders of a home that may be file systems of their own."""
_FEWEST_OPEN_FILES: Final = 1024
"""A batch opens 256 folders, a query some more."""
_STATUS_SECONDS: Final = 30.0
"""A host that wrote no status for so long hangs, or cannot write."""
_MOST_NAMED: Final = 20
_VOLATILE: Final = {"tmpfs", "ramfs"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's.

    Args:
        now_what: what to do; empty when nothing is to be done.
    """

    check: str
    level: Level
    message: str
    now_what: str = ""


def examine(home: Path, begins: Callable[[str], None] = lambda name: None) -> Iterator[Finding]:
    """Run every check and yield what it finds at once: with a million entries one of them takes minutes.

    A check that fails itself is a finding, too.

    Args:
        begins: called with the name of each check.
    """
    for check in CHECKS:
        begins(check.__name__.replace("_", " "))
        try:
            yield from check(home)
        except OSError as error:
            yield Finding(check.__name__, "problem", f"cannot be checked: {error}", "see the message")


def python_and_sqlite(home: Path) -> Iterator[Finding]:
    yield Finding(
        "versions",
        "ok",
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}",
    )


def home_folder(home: Path) -> Iterator[Finding]:
    try:
        check_home(home)
    except HostError as error:
        yield Finding("home", "problem", str(error), "see the message")
        return
    yield Finding("home", "ok", f"{home} can be served by uid {os.geteuid()}")
    for name in ("data", "groups", "config"):
        folder = home / name
        if folder.is_dir() and folder.stat().st_mode & 0o022:
            yield Finding("permissions", "warning", f"others may write into {folder}", f"chmod go-w {folder}")
        elif name == "data" and folder.is_dir() and folder.stat().st_mode & 0o044:
            yield Finding(
                "permissions", "warning", f"others may list {folder}", f"chmod 700 {folder} (711 in closed mode)"
            )


def settings(home: Path) -> Iterator[Finding]:
    try:
        loaded = load_settings(home)
    except SettingsError as error:
        yield Finding("settings", "problem", str(error), "correct it; the host does not start with it")
        return
    changed = [name for name, origin in loaded.origins.items() if origin != "default"]
    yield Finding("settings", "ok", f"{len(changed)} changed: {', '.join(changed) or 'all defaults'}")
    if loaded.settings.ipc.closed:
        try:
            senders = load_senders(home)
        except SettingsError as error:
            yield Finding("senders", "problem", str(error), "correct it")
            return
        level: Level = "ok" if senders else "warning"
        advice = "" if senders else "honeybadger-host sender add <group> <sender>"
        yield Finding("senders", level, f"closed mode serves {count_of(len(senders), 'sender')}", advice)


def lock(home: Path) -> Iterator[Finding]:
    holder = read_holder(home)
    if is_served(home):
        yield Finding("lock", "ok", f"served by {holder}")
    elif holder.pid is not None:
        yield Finding("lock", "ok", f"not served; last by {holder} (a lock left behind is not an obstacle)")
    else:
        yield Finding("lock", "ok", "never served yet")


def journal(home: Path) -> Iterator[Finding]:
    path = home / JOURNAL_FILE
    if not path.exists():
        if read_holder(home).journal is not None:
            yield Finding("journal", "problem", f"{path} is missing", "restore it from a backup before the next start")
        return
    try:
        checked = check_journal(path)
    except JournalError as error:
        yield Finding("journal", "problem", str(error), "restore it from a backup")
        return
    if checked.verdict != "ok":
        yield Finding("journal", "problem", f"{path} is damaged: {checked.verdict}", "restore it from a backup")
        return
    yield Finding("journal", "ok", f"{count_of(checked.changes, 'change')}, {path.stat().st_size} bytes")
    behind = checked.last_at / 1000 - time.time()
    if behind > CLOCK_GRACE_SECONDS:
        yield Finding(
            "clock",
            "warning",
            f"{in_words(behind)} behind the journal's last change: until it has caught up, changes get the same stamp",
            "set it (timedatectl); nothing is lost either way",
        )
    else:
        yield Finding("clock", "ok", "not behind the journal")


def disk(home: Path) -> Iterator[Finding]:
    seen: set[int] = set()
    for folder in (home, *(home / name for name in _MOUNTABLE)):
        if not folder.is_dir() or folder.stat().st_dev in seen:
            continue
        seen.add(folder.stat().st_dev)
        of = "" if folder == home else f" for {folder}"
        space = os.statvfs(folder)
        free = space.f_bavail * space.f_frsize
        level: Level = "ok" if free > 1 << 30 else "warning" if free > 1 << 26 else "problem"
        yield Finding("disk", level, f"{free >> 20} MiB free{of}", "" if level == "ok" else "free some space")
        if space.f_files:
            level = "ok" if space.f_favail > 100_000 else "warning" if space.f_favail > 10_000 else "problem"
            yield Finding(
                "inodes",
                level,
                f"{space.f_favail} inodes free{of}",
                "" if level == "ok" else "every request and reply is a file: remove some",
            )
        if space.f_flag & os.ST_RDONLY:
            yield Finding(
                "disk", "problem", f"{folder} is mounted read-only", "see why (dmesg), then mount -o remount,rw"
            )


def file_system(home: Path) -> Iterator[Finding]:
    kind = _file_system_of(home.resolve())
    if kind is None:
        return
    if kind in _WITHOUT_EVENTS:
        yield Finding(
            "file system",
            "warning",
            f"{kind}: no file events from other machines, and fsync may promise less",
            "keep the home on a local disk; at least set ipc.watch = false",
        )
    elif kind in _VOLATILE:
        yield Finding("file system", "warning", f"{kind}: everything is gone after a reboot", "use a disk")
    else:
        yield Finding("file system", "ok", kind)


def open_files(home: Path) -> Iterator[Finding]:
    """The limit of open files: of the host that runs, else of one that this shell would start."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown, used = "may open", 0
    holder = read_holder(home)
    if holder.pid is not None and is_served(home):
        with contextlib.suppress(OSError, ValueError, StopIteration):  # not ours to look at
            lines = Path(f"/proc/{holder.pid}/limits").read_text().splitlines()
            soft = next(line for line in lines if line.startswith("Max open files")).split()[3]
            limit = int(soft) if soft.isdigit() else resource.RLIM_INFINITY
            used = len(os.listdir(f"/proc/{holder.pid}/fd"))
            shown = f"has {used} files open, and may open"
    if limit != resource.RLIM_INFINITY and (limit < _FEWEST_OPEN_FILES or limit - used < _FEWEST_OPEN_FILES // 4):
        yield Finding(
            "open files",
            "warning",
            f"the host {shown} {limit}: requests wait when it needs more",
            f"LimitNOFILE={_FEWEST_OPEN_FILES * 8} in the unit, or ulimit -n; then start it again",
        )
    else:
        yield Finding("open files", "ok", f"the host {shown} {'any number' if limit < 0 else limit}")


def running(home: Path) -> Iterator[Finding]:
    """What a host that runs says of itself."""
    if not is_served(home):
        return
    try:
        said = orjson.loads((home / STATUS_FILE).read_bytes())
        if said["pid"] != read_holder(home).pid:
            return  # it has said nothing yet
        age = time.time() - said["written_at"]
        behind, stuck, without = said["files_behind"], said["stuck"], said["watcher"]["folders_without_events"]
        is_watching = said["watcher"]["is_alive"]
        refused = said["boxes_refused"]
    except FileNotFoundError:
        return
    except (ValueError, LookupError, TypeError):
        yield Finding("running", "problem", f"{home / STATUS_FILE} is damaged", "the host writes it anew: look again")
        return
    if age > _STATUS_SECONDS:
        yield Finding(
            "running",
            "problem",
            f"the host wrote its status {in_words(age)} ago",
            "see its log: it hangs, is stopped, or cannot write",
        )
    for file in behind:
        yield Finding("running", "problem", f"{file} cannot be written", "see projection.failed in the log")
    for inbox in refused:
        yield Finding("running", "problem", f"box {inbox}", "see inbox.refused in the log")
    if stuck:
        yield Finding(
            "running",
            "warning",
            f"{count_of(stuck, 'request is', 'requests are')} done and cannot be removed",
            "see inbox.unlink_failed in the log",
        )
    if without:
        yield Finding(
            "running",
            "warning",
            f"{count_of(without, 'folder has', 'folders have')} no file events "
            f"({'' if is_watching else 'no '}watcher): the sweep finds all",
            "see watch.failed in the log, and inotify here",
        )


def inotify(home: Path) -> Iterator[Finding]:
    if sys.platform != "linux":
        return
    needed = sum(1 for _ in _group_folders(home)) + sum(1 for _ in (home / "data" / "ipc").glob("*/*"))
    for name, least in (("max_user_watches", needed * 2 + 64), ("max_user_instances", 16)):
        path = Path("/proc/sys/fs/inotify") / name
        if not path.exists():
            continue
        limit = int(path.read_text())
        if limit < least:
            yield Finding(
                "inotify",
                "warning",
                f"fs.inotify.{name} is {limit}, {least} are wanted: requests wait for the sweep",
                f"sysctl fs.inotify.{name}={max(least, 8192)}",
            )
        else:
            yield Finding("inotify", "ok", f"fs.inotify.{name} is {limit}, {needed} folders are watched")


def hard_links(home: Path) -> Iterator[Finding]:
    path = Path("/proc/sys/fs/protected_hardlinks")
    if path.exists() and path.read_text().strip() == "0":
        yield Finding(
            "hard links",
            "warning",
            "fs.protected_hardlinks is 0: agents can link each other's files",
            "sysctl fs.protected_hardlinks=1",
        )


def group_files(home: Path) -> Iterator[Finding]:
    files = GroupFiles(home, max_file_bytes=1 << 20, max_cache_bytes=0)
    with contextlib.suppress(SettingsError):
        limit = load_settings(home).settings.memory.max_group_file_bytes
        files = GroupFiles(home, max_file_bytes=limit, max_cache_bytes=0)
    good = 0
    for group in _group_folders(home):
        if (large := files.size_warning(group)) is not None:
            yield Finding("group files", "warning", f"groups/{group}/{large}", "")
        for name in GROUP_FILES:
            try:
                good += files.read(f"groups/{group}/{name}") is not None
            except FileProblem as problem:
                yield Finding("group files", "problem", str(problem), "it is not served until then")
    yield Finding("group files", "ok", f"{good} can be served")


def entries(home: Path) -> Iterator[Finding]:
    """Long-term entries that are none: each is skipped, and the others are served."""
    good = bad = 0
    for group in _group_folders(home):
        for file in _entry_files(home, memory_folder(group)):
            try:
                parse_entry(read_whole(home / file) or b"", file)
            except (ValueError, WorldFailed) as error:
                bad += 1
                if bad <= _MOST_NAMED:
                    what = f"{printable(file)}: {printable(str(error))}"
                    yield Finding("entries", "warning", what, "mend, move or remove it")
            else:
                good += 1
    if bad > _MOST_NAMED:
        yield Finding(
            "entries",
            "warning",
            f"{count_of(bad - _MOST_NAMED, 'more file is', 'more files are')} not entries",
            "mend these first",
        )
    yield Finding("entries", "ok", f"{good} can be served")


def _entry_files(home: Path, folder: str) -> Iterator[str]:
    """Yield what should be entries, below the home folder, however deep (`os.walk` calls itself for each level)."""
    folders = [folder]
    while folders:
        folder = folders.pop()
        files: list[str] = []
        with contextlib.suppress(OSError), os.scandir(home / folder) as entries:
            for entry in entries:
                if entry.name[0] == ".":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}/{entry.name}")
                elif entry.name.endswith(".json"):
                    files.append(f"{folder}/{entry.name}")
        yield from sorted(files)


def inboxes(home: Path) -> Iterator[Finding]:
    ipc = home / "data" / "ipc"
    if not ipc.is_dir():
        return
    count = 0
    for group in sorted(ipc.iterdir()):
        if not NAME.fullmatch(group.name) or group.name == GLOBAL_GROUP:
            yield Finding("boxes", "warning", f"{group} is not a group's name and is not served", "rename or remove it")
            continue
        if group.is_symlink() or not group.is_dir():
            yield Finding("boxes", "warning", f"{group} is not a group's folder and is not served", "remove it")
            continue
        for sender in sorted(group.iterdir()):
            if not NAME.fullmatch(sender.name) or sender.is_symlink() or not sender.is_dir():
                yield Finding("boxes", "warning", f"{sender} is not a sender's folder and is not served", "remove it")
                continue
            count += 1
            for folder in (sender / "requests", sender / "replies"):
                if folder.is_symlink():
                    yield Finding("boxes", "problem", f"{folder} is a link: the box is not served", "remove the link")
    yield Finding("boxes", "ok", count_of(count, "box", "boxes"))


def dead_letters(home: Path) -> Iterator[Finding]:
    count = size = 0
    for path in (home / "data" / "dead").glob("*/*/*.json"):
        count += path.name.endswith(".reason.json")
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    if count:
        message = f"{count_of(count, 'request')} could not be served, {size >> 20} MiB are kept"
        yield Finding("dead letters", "warning", message, "honeybadger-host dead list")
    else:
        yield Finding("dead letters", "ok", "none")


def metrics(home: Path) -> Iterator[Finding]:
    with contextlib.suppress(SettingsError):  # said above
        asked = load_settings(home).settings.metrics
        if not asked.textfile:
            return
        if find_spec("prometheus_client") is None:
            yield Finding(
                "metrics",
                "problem",
                "metrics are asked for, and prometheus-client is not installed: the host does not start",
                "pip install 'honeybadger-host[metrics]', or metrics.textfile = \"\"",
            )
        folder = (home / asked.textfile).parent
        if asked.textfile and not os.access(folder, os.W_OK | os.X_OK):
            yield Finding(
                "metrics",
                "problem",
                f"metrics.textfile: {folder} is not a folder that uid {os.geteuid()} may write to",
                "make it, give it to the user of the host, or change metrics.textfile",
            )


def units(home: Path) -> Iterator[Finding]:
    """systemd units that serve this home."""
    user_home, config_home = user_folders()
    for unit, is_user in ((systemd.SYSTEM_UNIT, False), (systemd.user_unit(config_home), True)):
        command = systemd.serves(unit, home, user_home)
        if command is None:
            continue
        drop_in = unit.with_name(f"{unit.name}.d") / "closed.conf"
        try:
            if is_user:
                plan = systemd.plan_user(home, Path(command), user_home, config_home)
            else:
                plan = systemd.plan_system(home, Path(command), is_closed=drop_in.exists())
        except HostError as error:
            yield Finding("systemd", "problem", f"{unit}: {error}", "see the message")
            continue
        install = f"honeybadger-host service install{' --user' if is_user else ''}"
        wanted = dict(plan.files)
        changed = [path for path in (unit, drop_in) if path in wanted and path.read_text() != wanted[path]]
        for path in changed:
            yield Finding(
                "systemd",
                "warning",
                f"{path} is not what this version installs",
                f"compare with `{install} --dry-run`; what you change belongs into a drop-in of another name",
            )
        if not changed:
            yield Finding("systemd", "ok", f"{unit} serves this home")
        with contextlib.suppress(SettingsError):
            uids = {uid for uid in load_senders(home).values() if uid is not None} - {(home / "data").stat().st_uid}
            if uids and not drop_in.exists() and load_settings(home).settings.ipc.closed:
                yield Finding(
                    "systemd",
                    "problem",
                    f"{unit} may not open the boxes of uid {', '.join(map(str, sorted(uids)))}",
                    "honeybadger-host service install --closed",
                )


def agents(home: Path) -> Iterator[Finding]:
    """The files of agents, and whether their models can be asked: their own servers are, no provider is."""
    try:
        loaded = load_settings(home).settings
    except SettingsError:  # said above
        return
    models = {loaded.model.name: "model.name"}
    files = [name.removesuffix(".json") for name in agent_files(home)]
    for agent_id in files:
        agent = load_agent(home, agent_id)
        if isinstance(agent, str):
            yield Finding(
                "agents", "warning", f"{AGENTS_FOLDER}/{agent_id}.json: {agent}", "mend it; it counts at once"
            )
            continue
        if agent.model is not None:
            models.setdefault(agent.model, f"agent {agent_id}")
        if missing := [name for name in agent.delegates_to if name not in (*files, loaded.turns.agent)]:
            yield Finding(
                "agents",
                "warning",
                f"{AGENTS_FOLDER}/{agent_id}.json: delegates_to names {', '.join(missing)}, and there is no such agent",
                f"write {AGENTS_FOLDER}/{missing[0]}.json, or mend the name",
            )
    yield Finding("agents", "ok", f"{loaded.turns.agent} answers; {count_of(len(files), 'file')} in {AGENTS_FOLDER}/")
    for name, wanted_by in models.items():
        yield _model(home, name, wanted_by, loaded)


def tasks(home: Path) -> Iterator[Finding]:
    """The files of tasks: those that are wrong do not run."""
    try:
        least_seconds = load_settings(home).settings.tasks.least_seconds
    except SettingsError:  # said above
        return
    good = 0
    for file in (task_file(group, task) for group in _group_folders(home) for task in tasks_of(home, group)):
        try:
            schedule_of(parse_task(read_whole(home / file) or b""), datetime.now(UTC), host_zone(), least_seconds)
            good += 1
        except WrongSchedule as error:
            yield Finding("tasks", "warning", f"{file}: {error.member} {error}", "mend it; until then it does not run")
        except (ValueError, WorldFailed) as error:
            yield Finding("tasks", "warning", f"{file}: {error}", "mend it; until then it does not run")
    if good:
        yield Finding("tasks", "ok", f"{count_of(good, 'file')} can be read")


def directives(home: Path) -> Iterator[Finding]:
    """The prompts of curation that are this home's own."""
    wrong = list(check_directives(home))
    for file, why in wrong:
        yield Finding("directives", "warning", f"{file} {why}", "mend it; until then the built-in prompt is used")
    if not wrong and (own := [name for name in NAMES if (home / directive_file(name)).exists()]):
        yield Finding("directives", "ok", f"{', '.join(own)}: of this home")


def _model(home: Path, name: str, wanted_by: str, loaded: Settings) -> Finding:
    what = f"{name} ({wanted_by})"
    try:
        kind, rest = split_name(name)
    except ModelFailed as error:
        return Finding("model", "problem", f"{wanted_by}: {error}", "correct the name; see docs/models.md")
    match kind:
        case "offline":
            return Finding(
                "model", "ok", f"{what}: remembers and recalls, and is not a language model; see docs/models.md"
            )
        case "scripted":
            if (home / rest).is_file():
                return Finding("model", "ok", what)
            return Finding("model", "problem", f"{what}: there is no such file", "correct the name")
        case "openai" | "anthropic" | "ollama":
            if (missing := missing_extra(name)) is not None:
                return Finding("model", "problem", f"{wanted_by}: {missing}", "install it, or choose another model")
            is_own = kind == loaded.model.name.partition(":")[0]
            key, key_name = model_key(kind, is_own=is_own)
            server = own_server(name, loaded.model)
            if not key and not server:
                return Finding(
                    "model", "warning", f"{what} has no key in this environment", f"set {key_name} for the host"
                )
            if server and (why := why_silent(server)) is not None:
                advice = "start it, or correct model.base_url"
                return Finding("model", "problem", f"{what}: its server at {server} does not answer: {why}", advice)
            return Finding(
                "model", "ok", f"{what}, served at {server}" if server else f"{what}, which is not asked here"
            )


CHECKS: Final[tuple[Callable[[Path], Iterator[Finding]], ...]] = (
    python_and_sqlite,
    home_folder,
    settings,
    lock,
    journal,
    disk,
    file_system,
    open_files,
    inotify,
    hard_links,
    group_files,
    entries,
    inboxes,
    running,
    dead_letters,
    metrics,
    agents,
    tasks,
    directives,
    units,
)


def _group_folders(home: Path) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(home / "groups") as entries:
        yield from sorted(entry.name for entry in entries if entry.is_dir() and NAME.fullmatch(entry.name))


def _file_system_of(path: Path) -> str | None:
    """Return the type of the file system a path is on, None where /proc does not tell."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return None
    best: tuple[int, str] | None = None
    for line in lines:
        parts = line.split(" ")
        mount = parts[1].replace("\\040", " ")
        if (str(path) == mount or str(path).startswith(mount.rstrip("/") + "/")) and (
            best is None or len(mount) >= best[0]
        ):
            best = (len(mount), parts[2])
    return best[1] if best else None
