"""The files from which `forget` removes texts, and the files that go because they quote one."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from honeybadger_agent.mailbox import GLOBAL_GROUP, OPERATOR, REPLIES, REQUESTS, TURNS
from honeybadger_host.errors import WorldFailed
from honeybadger_host.files.home import JOURNAL_FILE
from honeybadger_host.files.safe_files import names_in, open_folder, open_plain, printable
from honeybadger_host.journal.changes import read_whole
from honeybadger_host.journal.forgetting import Forgetting
from honeybadger_host.journal.opening import BEFORE
from honeybadger_host.memory.injection_ledger import InjectionLedger
from honeybadger_host.memory.peoples_files import files_of
from honeybadger_host.spool.inbox import STREAM
from honeybadger_host.text.phrases import Phrases


def request_file(plan: Forgetting) -> str:
    return f"data/ipc/{plan.asked_in}/{plan.sender}/{REQUESTS}/{plan.request}.json"


def files_with(home: Path, plan: Forgetting) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield each file of the group that has a text of the plan, with its content as it is and without the text."""
    phrases = plan.phrases
    for file in files_of(home, plan.group):
        held = read_whole(home / file)
        made = None if held is None else phrases.in_bytes(held, is_all=file in plan.files)
        if held is not None and made is not None and made != held:
            yield file, held, made
        time.sleep(0)  # lets the threads that serve requests run


def remove_earlier_journals(home: Path) -> list[str]:
    """Remove the copies of earlier versions' journals; return their names. Raises WorldFailed."""
    kept = [*home.glob(f"{JOURNAL_FILE}{BEFORE}*")]
    try:
        for path in kept:
            path.unlink()
    except OSError as error:
        raise WorldFailed(f"cannot remove {error.filename}: {error.strerror}") from error
    return [str(path.relative_to(home)) for path in kept]


def remove_quotes(home: Path, plan: Forgetting, *, is_dry: bool = False) -> list[str]:
    """Remove uncollected replies, streams and dead letters with a text; return their paths. Raises WorldFailed.

    If a sender is forgotten, all its replies are removed.
    """
    phrases, found = plan.phrases, list[str]()
    forgotten = orjson.loads(plan.selector or "{}").get("sender")
    readers = names_in(home / "data" / "ipc") if plan.group == GLOBAL_GROUP else [plan.group]
    for group in readers:
        for sender in names_in(home / "data" / "ipc" / group):
            is_all = sender == forgotten and sender != OPERATOR
            found += _remove(home, f"data/ipc/{group}/{sender}/{REPLIES}", phrases, not is_dry, is_all=is_all)
        for sender in names_in(home / "data" / "dead" / group):
            found += _remove(home, f"data/dead/{group}/{sender}", phrases, not is_dry)
    return found


def forget_injected(ledger: InjectionLedger, plan: Forgetting) -> None:
    """Remove served contexts that have a text, or that were of the session or the sender."""
    phrases, sender = plan.phrases, orjson.loads(plan.selector or "{}").get("sender")
    found: dict[str, bool] = {}  # hash of a stable part -> whether it has a text of the plan

    def quotes(text: str) -> bool:
        data = text.encode()
        return phrases.finds_bytes(data) or (bool(phrases.wholes) and phrases.in_bytes(data) != data)

    def is_doomed(result: Mapping[str, Any], session: str, by: str) -> bool:
        if session == plan.session or by == sender:
            return True
        hash_, length = result["stable_hash"], result["stable_characters"]
        if hash_ not in found:
            found[hash_] = quotes(result["system"][:length])
        begins = max(0, length - phrases.longest)
        told = orjson.dumps({**result, "system": ""}).decode()
        return found[hash_] or quotes(f"{result['system'][begins:]}\n{told}")

    ledger.forget(plan.group, plan.entries, plan.session, is_doomed)


def _remove(home: Path, folder: str, phrases: Phrases, is_removed: bool, *, is_all: bool = False) -> list[str]:
    """Remove files of a folder that have a text; return their paths. Streams of waiting turns stay."""
    found: set[str] = set()
    try:
        fd = open_folder(home / folder)
    except OSError:
        return []
    try:
        names = sorted(os.listdir(fd))
        for name in names:
            stem = name.removesuffix(STREAM)
            if stem != name and os.path.lexists(f"{home}/{folder}/../{TURNS}/{stem}.json"):
                continue
            with contextlib.suppress(OSError):
                opened, status = open_plain(name, within=fd)
                with os.fdopen(opened, "rb") as file:
                    data = file.read(status.st_size + 1)
                if is_all or phrases.finds_bytes(data) or phrases.in_bytes(data) != data:
                    stem = name.removesuffix(".json").removesuffix(".reason")  # a dead letter goes with its reason
                    found |= {name, *(other for other in (f"{stem}.json", f"{stem}.reason.json") if other in names)}
        for name in found if is_removed else ():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=fd)
    except OSError as error:
        raise WorldFailed(f"cannot remove from {folder}: {error.strerror}") from error
    finally:
        os.close(fd)
    return [f"{folder}/{printable(name)}" for name in sorted(found)]
