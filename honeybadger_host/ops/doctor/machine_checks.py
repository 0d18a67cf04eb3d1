"""The doctor's checks of the machine: disks, limits and units. Each check is a function of the home folder."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from honeybadger_host.configuration import load_settings, user_folders
from honeybadger_host.errors import HostError, SettingsError
from honeybadger_host.files.home import groups_in, is_served, read_holder
from honeybadger_host.ops import systemd
from honeybadger_host.ops.findings import Finding, Level, ok, problem, warning
from honeybadger_host.spool.senders import load_senders

_WITHOUT_EVENTS: Final = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "fuse.sshfs", "vboxsf"}
_VOLATILE: Final = {"tmpfs", "ramfs"}
# Folders of a home that may be separate file systems.
_MOUNTABLE: Final = ("data", "data/ipc", "data/dead", "groups")
_MIN_OPEN_FILES: Final = 1024  # a batch opens up to 256 folders


def python_and_sqlite(home: Path) -> Iterator[Finding]:
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
            yield Finding(
                "inodes",
                level,
                f"{space.f_favail} inodes free{of}",
                "" if level == "ok" else "every request and reply is a file: remove some",
            )
        if space.f_flag & os.ST_RDONLY:
            yield problem("disk", f"{folder} is mounted read-only", "see why (dmesg), then mount -o remount,rw")


def file_system(home: Path) -> Iterator[Finding]:
    kind = _file_system_of(home.resolve())
    if kind is None:
        return
    if kind in _WITHOUT_EVENTS:
        yield warning(
            "file system",
            f"{kind}: no file events from other machines, and fsync may promise less",
            "keep the home on a local disk; at least set ipc.watch = false",
        )
    elif kind in _VOLATILE:
        yield warning("file system", f"{kind}: everything is gone after a reboot", "use a disk")
    else:
        yield ok("file system", kind)


def open_files(home: Path) -> Iterator[Finding]:
    """Check the limit of open files of the running host, else of a host that this shell would start."""
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
    if limit != resource.RLIM_INFINITY and (limit < _MIN_OPEN_FILES or limit - used < _MIN_OPEN_FILES // 4):
        yield warning(
            "open files",
            f"the host {shown} {limit}: requests wait when it needs more",
            f"LimitNOFILE={_MIN_OPEN_FILES * 8} in the unit, or ulimit -n; then start it again",
        )
    else:
        yield ok("open files", f"the host {shown} {'any number' if limit < 0 else limit}")


def inotify(home: Path) -> Iterator[Finding]:
    if sys.platform != "linux":
        return
    needed = len(groups_in(home)) + sum(1 for _ in (home / "data" / "ipc").glob("*/*"))
    for name, least in (("max_user_watches", needed * 2 + 64), ("max_user_instances", 16)):
        path = Path("/proc/sys/fs/inotify") / name
        if not path.exists():
            continue
        limit = int(path.read_text())
        if limit < least:
            yield warning(
                "inotify",
                f"fs.inotify.{name} is {limit}, {least} are wanted: requests wait for the sweep",
                f"sysctl fs.inotify.{name}={max(least, 8192)}",
            )
        else:
            yield ok("inotify", f"fs.inotify.{name} is {limit}, {needed} folders are watched")


def hard_links(home: Path) -> Iterator[Finding]:
    path = Path("/proc/sys/fs/protected_hardlinks")
    if path.exists() and path.read_text().strip() == "0":
        yield warning(
            "hard links",
            "fs.protected_hardlinks is 0: agents can link each other's files",
            "sysctl fs.protected_hardlinks=1",
        )


def units(home: Path) -> Iterator[Finding]:
    """Check the systemd units that serve this home."""
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
            yield problem("systemd", f"{unit}: {error}", "see the message")
            continue
        install = f"honeybadger-host service install{' --user' if is_user else ''}"
        wanted = dict(plan.files)
        changed = [path for path in (unit, drop_in) if path in wanted and path.read_text() != wanted[path]]
        for path in changed:
            yield warning(
                "systemd",
                f"{path} is not what this version installs",
                f"compare with `{install} --dry-run`; what you change belongs into a drop-in of another name",
            )
        if not changed:
            yield ok("systemd", f"{unit} serves this home")
        with contextlib.suppress(SettingsError):
            uids = {uid for uid in load_senders(home).values() if uid is not None} - {(home / "data").stat().st_uid}
            if uids and not drop_in.exists() and load_settings(home).settings.ipc.closed:
                yield problem(
                    "systemd",
                    f"{unit} may not open the boxes of uid {', '.join(map(str, sorted(uids)))}",
                    "honeybadger-host service install --closed",
                )


def _file_system_of(path: Path) -> str | None:
    """Return the type of the file system that a path is on, or None if /proc does not say."""
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
