"""The doctor's checks of a home: settings, disk, journal, files and inboxes.

Each check is a function of the home folder.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME
from honeybadger_agent.wording import MAX_NAMED, count_of, in_words, listed
from honeybadger_host.configuration import load_settings, values
from honeybadger_host.errors import FileProblem, HostError, JournalError, SettingsError, WorldFailed
from honeybadger_host.files.home import (
    CLOCK_GRACE_SECONDS,
    GROUP_FILES,
    JOURNAL_FILE,
    STATUS_FILE,
    Moved,
    check_home,
    groups_in,
    is_served,
    read_holder,
)
from honeybadger_host.files.safe_files import names_in, printable
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.opening import DAMAGED_NOW_WHAT, check_journal
from honeybadger_host.memory.entries.entry import parse_entry
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.ops.findings import Finding, Level, faults_in, ok, problem, warning
from honeybadger_host.settings import Settings
from honeybadger_host.spool.senders import load_senders

# Folders of a home that may be separate file systems.
_MOUNTABLE: Final = ("data", "data/ipc", "data/dead", "groups")
_MIN_OPEN_FILES: Final = 1024  # a batch opens up to 256 folders
_LOOKED_AT: Final = ("agents", "journal", "large_memories", "tasks")  # parts of the status whose files are checked, too


def versions(home: Path) -> Iterator[Finding]:
    yield ok("versions", f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}")


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
            now_what = "" if level == "ok" else "every request and reply is a file: remove some"
            yield Finding("inodes", level, f"{space.f_favail} inodes free{of}", now_what)
        if space.f_flag & os.ST_RDONLY:
            yield problem("disk", f"{folder} is mounted read-only", "see why (dmesg), then mount -o remount,rw")


def open_files(home: Path) -> Iterator[Finding]:
    """Check the limit of open files of the running host, else of a host that this shell would start."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    holder = read_holder(home)
    if holder.pid is not None and is_served(home):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # not ours to look at, or not Linux
            limit = resource.prlimit(holder.pid, resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and limit < _MIN_OPEN_FILES:
        what = f"the host may open {limit}: requests wait when it needs more"
        advice = f"LimitNOFILE={_MIN_OPEN_FILES * 8} in the unit, or ulimit -n; then start it again"
        yield warning("open files", what, advice)
    else:
        yield ok("open files", f"the host may open {'any number' if limit < 0 else limit}")


def home_folder(home: Path) -> Iterator[Finding]:
    try:
        check_home(home)
    except HostError as error:
        yield problem("home", str(error), "see the message")
        return
    yield ok("home", f"{home} can be served by uid {os.geteuid()}")
    for name in ("data", "groups", "config"):
        folder = home / name
        if folder.is_dir() and folder.stat().st_mode & 0o022:
            yield warning("permissions", f"others may write into {folder}", f"chmod go-w {folder}")
        elif name == "data" and folder.is_dir() and folder.stat().st_mode & 0o044:
            yield warning("permissions", f"others may list {folder}", f"chmod 700 {folder} (711 in closed mode)")


def moved(home: Path) -> Iterator[Finding]:
    """Name the groups that went into another home."""
    for group, where in Moved(home).current.items():
        yield ok("groups", f"{group} went to another home: {where}; to be served here again, remove its file")


def settings(home: Path) -> Iterator[Finding]:
    try:
        loaded = load_settings(home)
    except SettingsError as error:
        yield problem("settings", str(error), "correct it; the host does not start with it")
        return
    changed = [name for name, origin in loaded.origins.items() if origin != "default"]
    yield ok("settings", f"{len(changed)} changed: {', '.join(changed) or 'all defaults'}")
    here = dict(values(loaded.settings))
    if others := [f"{name} = {value}" for name, value in values(settings_of(home)) if value != here[name]]:
        what = f"the running host was started with other values: {listed(others)}"
        yield warning(
            "settings", what, "start it again if it should have those of here; the checks below are of its own"
        )
    if loaded.settings.ipc.closed:
        try:
            senders = load_senders(home)
        except SettingsError as error:
            yield problem("senders", str(error), "correct it")
            return
        level: Level = "ok" if senders else "warning"
        advice = "" if senders else "honeybadger-host sender add <group> <sender>"
        yield Finding("senders", level, f"closed mode serves {count_of(len(senders), 'sender')}", advice)


def lock(home: Path) -> Iterator[Finding]:
    holder = read_holder(home)
    if is_served(home):
        yield ok("lock", f"served by {holder}")
    elif holder.pid is not None:
        yield ok("lock", f"not served; last by {holder} (a lock left behind is not an obstacle)")
    else:
        yield ok("lock", "never served yet")


def journal(home: Path) -> Iterator[Finding]:
    path = home / JOURNAL_FILE
    if not path.exists():
        if read_holder(home).journal is not None:
            yield problem("journal", f"{path} is missing", "restore it from a backup before the next start")
        return
    try:
        checked = check_journal(path)
    except JournalError as error:
        now_what = "restore it from a backup"
        if read_holder(home).journal is None:
            now_what += "; if no host has ever served this home, start one: it makes the journal"
        yield problem("journal", str(error), now_what)
        return
    if checked.verdict != "ok":
        yield problem("journal", f"{path} is damaged: {checked.verdict}", "restore it from a backup")
        return
    if checked.damaged:
        rows = listed(checked.damaged)
        number = count_of(len(checked.damaged), "row")
        yield problem("journal", f"{number} of {path} changed by themselves: {rows}", DAMAGED_NOW_WHAT)
        return
    yield ok("journal", f"{count_of(checked.changes, 'change')}, {path.stat().st_size} bytes")
    behind = checked.last_at / 1000 - time.time()
    if behind > CLOCK_GRACE_SECONDS:
        yield warning(
            "clock",
            f"{in_words(behind)} behind the journal's last change: until it has caught up, changes get the same stamp",
            "set it (timedatectl); nothing is lost either way",
        )
    else:
        yield ok("clock", "not behind the journal")


def settings_of(home: Path) -> Settings:
    """Return the settings of the running host, else those that one would be started with here. Raises SettingsError."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        return Settings.model_validate(_status_of(home)["settings"])
    return load_settings(home).settings


def _status_of(home: Path) -> Mapping[str, Any]:
    """Return the status of the running host; empty: none runs, or it has not written one yet.

    Raises ValueError, LookupError, TypeError: it is damaged.
    """
    if not is_served(home) or not (home / STATUS_FILE).exists():
        return {}
    said: Mapping[str, Any] = orjson.loads((home / STATUS_FILE).read_bytes())
    return said if said["pid"] == read_holder(home).pid else {}


def running(home: Path) -> Iterator[Finding]:
    """Check the status that a running host writes."""
    try:
        said = _status_of(home)
        faults = [*faults_in({part: said[part] for part in said if part not in _LOOKED_AT})]
    except (ValueError, LookupError, TypeError):
        yield problem("running", f"{home / STATUS_FILE} is damaged", "the host writes it anew: look again")
        return
    yield from faults


def group_files(home: Path) -> Iterator[Finding]:
    files = GroupFiles(home)
    good = 0
    for path in sorted((home / "groups").iterdir()) if (home / "groups").is_dir() else ():
        if path.is_dir() and not path.name.startswith(".") and not NAME.fullmatch(path.name):
            what = f"{printable(str(path))} is not a group's name: nothing in it is served"
            yield Finding("group files", "warning", what, "rename it: at most 64 letters, digits, - and _")
    for group in groups_in(home):
        if (large := files.size_warning(group)) is not None:
            yield warning("group files", f"groups/{group}/{large}", "")
        for name in GROUP_FILES:
            try:
                good += files.read(f"groups/{group}/{name}") is not None
            except FileProblem as error:
                yield problem("group files", str(error), "it is not served until then")
    yield ok("group files", f"{good} can be served")


def entries(home: Path) -> Iterator[Finding]:
    """Find files among the entries that are not entries: the host skips them."""
    good, bad, files = 0, 0, EntryFiles(home)
    for group in groups_in(home):
        for folder in files.folders(group):
            for name in names_in(home / folder):
                file = f"{folder}/{name}"
                if not name.endswith(".json") or name.startswith("."):
                    continue
                try:
                    parse_entry(read_whole(home / file) or b"", file)
                    good += 1
                except (ValueError, WorldFailed) as error:
                    bad += 1
                    if bad <= MAX_NAMED:
                        what = f"{printable(file)}: {printable(str(error))}"
                        yield warning("entries", what, "mend, move or remove it")
    if bad > MAX_NAMED:
        what = f"{count_of(bad - MAX_NAMED, 'more file is', 'more files are')} not entries"
        yield warning("entries", what, "mend these first")
    yield ok("entries", f"{good} can be served")


def inboxes(home: Path) -> Iterator[Finding]:
    count = 0
    for path in sorted((home / "data" / "ipc").glob("*")):
        if path.is_symlink() or not path.is_dir() or not NAME.fullmatch(path.name) or path.name == GLOBAL_GROUP:
            yield warning("boxes", f"{path} is not a group's folder and is not served", "rename or remove it")
            continue
        for sender in sorted(path.iterdir()):
            if sender.is_symlink() or not sender.is_dir() or not NAME.fullmatch(sender.name):
                yield warning("boxes", f"{sender} is not a sender's folder and is not served", "rename or remove it")
                continue
            count += 1
            for folder in (sender / "requests", sender / "replies"):
                if folder.is_symlink():
                    yield problem("boxes", f"{folder} is a link: the box is not served", "remove the link")
            if others := [name for name in names_in(sender / "requests") if not name.endswith(".json")]:
                message = f"{sender / 'requests'} has {count_of(len(others), 'file')} never served: {others[0]!r} first"
                yield warning("boxes", message, "a request's name is its id and .json: rename or remove it")
    yield ok("boxes", count_of(count, "box", "boxes"))


def dead_letters(home: Path) -> Iterator[Finding]:
    count = size = 0
    for path in (home / "data" / "dead").glob("*/*/*.json"):
        count += path.name.endswith(".reason.json")
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    if count:
        message = f"{count_of(count, 'request')} could not be served, {size >> 20} MiB are kept"
        yield warning("dead letters", message, "honeybadger-host dead list")
    else:
        yield ok("dead letters", "none")
