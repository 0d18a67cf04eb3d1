"""The doctor's checks of a home: settings, disk, journal, files and inboxes.

Each check is a function of the home folder.
"""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from honeybadger_agent.mailbox import GLOBAL_GROUP, NAME, OPERATOR
from honeybadger_agent.wording import MAX_NAMED, count_of, listed
from honeybadger_host import __version__
from honeybadger_host.agents import agent_files
from honeybadger_host.configuration import host_zone, load_settings, values
from honeybadger_host.errors import FileProblem, HostError, JournalError, SettingsError, WorldFailed
from honeybadger_host.files.home import (
    GROUP_FILES,
    JOURNAL_FILE,
    check_home,
    groups_in,
    has_journal,
    is_served,
    read_holder,
)
from honeybadger_host.files.safe_files import names_in, printable
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.opening import DAMAGED_NOW_WHAT, check_journal
from honeybadger_host.memory.entries.entry import memory_folder, parse_entry, unused_members
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.peoples_files import check_groups
from honeybadger_host.observe import read_status
from honeybadger_host.ops.findings import Finding, Level, faults_in
from honeybadger_host.settings import Settings
from honeybadger_host.spool.senders import load_senders
from honeybadger_host.work.times import read_cron, read_zone

_LOOKED_AT: Final = ("agents", "journal")  # parts of the status whose files are checked, too


def home_folder(home: Path) -> Iterator[Finding]:
    try:
        check_home(home)
        check_groups(home)
    except HostError as error:
        yield Finding("home", "problem", str(error), "see the message")
        return
    yield Finding("home", "ok", f"{home} can be served by uid {os.geteuid()}")
    for name in ("data", "groups", "config"):
        folder = home / name
        if folder.is_dir() and folder.stat().st_mode & 0o022:
            yield Finding("permissions", "warning", f"others may write into {folder}", f"chmod go-w {folder}")


def settings(home: Path) -> Iterator[Finding]:
    try:
        loaded = load_settings(home)
    except SettingsError as error:
        yield Finding("settings", "problem", str(error), "correct it; the host does not start with it")
        return
    changed = [name for name, origin in loaded.origins.items() if origin != "default"]
    yield Finding("settings", "ok", f"{len(changed)} changed: {', '.join(changed) or 'all defaults'}")
    here = dict(values(loaded.settings))
    if others := [f"{name} = {value}" for name, value in values(settings_of(home)) if value != here[name]]:
        yield Finding(
            "settings",
            "warning",
            f"the running host was started with other values: {listed(others)}",
            "start it again if it should have those of here; the checks below are of its own",
        )
    if schedule := loaded.settings.dream.schedule:
        try:
            read_cron(schedule, read_zone(host_zone()), datetime.now(UTC))
        except ValueError as error:
            yield Finding(
                "settings", "problem", f"dream.schedule: {error}", "correct it; the host does not start with it"
            )
    if loaded.settings.ipc.closed:
        try:
            senders = load_senders(home)
        except SettingsError as error:
            yield Finding("senders", "problem", str(error), "correct it")
            return
        level: Level = "ok" if senders else "warning"
        advice = "" if senders else "honeybadger-host sender add <group> <sender>"
        yield Finding("senders", level, f"closed mode serves {count_of(len(senders), 'sender')}", advice)
        agents = {loaded.settings.turns.agent, *(Path(file).stem for file in agent_files(home))}
        for box in sorted((home / "data" / "ipc").glob("*/*")):
            group, sender = box.parent.name, box.name
            is_known = (group, sender) in senders or sender == OPERATOR or sender in agents
            if not is_known and (waiting := names_in(box / "requests")):
                what = f"closed mode does not serve {group}/{sender}, which sent {count_of(len(waiting), 'request')}"
                yield Finding("senders", "warning", what, f"honeybadger-host sender add {group} {sender}")


def lock(home: Path) -> Iterator[Finding]:
    yield Finding("lock", "ok", f"served by {read_holder(home)}" if is_served(home) else "not served")


def journal(home: Path) -> Iterator[Finding]:
    path = home / JOURNAL_FILE
    try:
        if has_journal(home):
            yield Finding("journal", "ok", f"{count_of(check_journal(path), 'change')}, {path.stat().st_size} bytes")
    except JournalError as error:
        yield Finding(
            "journal", "problem", str(error), DAMAGED_NOW_WHAT if path.exists() else "do not start a host before"
        )


def settings_of(home: Path) -> Settings:
    """Return the settings of the running host, else those that one would be started with here. Raises SettingsError."""
    status = _status_of(home)
    return Settings.model_validate(status["settings"]) if status else load_settings(home).settings


def _status_of(home: Path) -> Mapping[str, Any]:
    """Return the status of the running host; empty: none runs, or none of this version has written one yet."""
    said = read_status(home)
    return said if said.get("version") == __version__ else {}


def running(home: Path) -> Iterator[Finding]:
    """Check the status that a running host writes."""
    said = _status_of(home)
    yield from faults_in({part: said[part] for part in said if part not in _LOOKED_AT})


def group_files(home: Path) -> Iterator[Finding]:
    files = GroupFiles(home)
    good = 0
    for path in sorted((home / "groups").iterdir()) if (home / "groups").is_dir() else ():
        if path.is_dir() and not path.name.startswith(".") and not NAME.fullmatch(path.name):
            yield Finding(
                "group files",
                "warning",
                f"{printable(str(path))} is not a group's name: nothing in it is served",
                "rename it: at most 64 characters of A-Z a-z 0-9 - _",
            )
    for group in groups_in(home):
        for name in GROUP_FILES:
            try:
                good += files.read(f"groups/{group}/{name}") is not None
            except FileProblem as error:
                yield Finding(
                    "group files", "problem", str(error), "until then its last good version is served, if any"
                )
    yield Finding("group files", "ok", f"{good} can be served")


def entries(home: Path) -> Iterator[Finding]:
    """Find files that are not entries, which the host skips, and members of entries that it does not use."""
    good, bad, unused = 0, list[str](), list[str]()
    for group in groups_in(home):
        for path in sorted((home / memory_folder(group)).rglob("*.json")):
            file = str(path.relative_to(home))
            if "/." in file:
                continue
            try:
                entry = parse_entry(read_whole(path) or b"", file)
                good += 1
                unused += [printable(f"{file}: {what}: it is not used") for what in unused_members(entry)]
            except (ValueError, WorldFailed) as error:
                bad.append(printable(f"{file}: {error}"))
    for what in bad[:MAX_NAMED]:
        yield Finding("entries", "warning", what, "mend, move or remove it")
    for what in unused[:MAX_NAMED]:
        yield Finding("entries", "warning", what, "mend it, or give a member of your own another name")
    yield Finding("entries", "ok", f"{good} can be served, {len(bad)} cannot")


def inboxes(home: Path) -> Iterator[Finding]:
    count = 0
    ipc = home / "data" / "ipc"
    for path in sorted([*ipc.glob("*"), *ipc.glob("*/*")]):
        what = "group" if path.parent == ipc else "sender"
        if path.is_symlink() or not path.is_dir() or not NAME.fullmatch(path.name) or path.name == GLOBAL_GROUP:
            why = f"{path} is not a {what}'s folder and is not served"
            yield Finding("boxes", "warning", why, "rename or remove it")
        elif what == "sender":
            count += 1
            for folder in path.iterdir():
                if folder.is_symlink():
                    yield Finding("boxes", "problem", f"{folder} is a link: the box is not served", "remove the link")
            if others := [name for name in names_in(path / "requests") if not name.endswith(".json")]:
                yield Finding(
                    "boxes",
                    "warning",
                    f"{path / 'requests'} has {count_of(len(others), 'file')} never served: {others[0]!r} first",
                    "a request's name is its id and .json: rename or remove it",
                )
    yield Finding("boxes", "ok", count_of(count, "box", "boxes"))
