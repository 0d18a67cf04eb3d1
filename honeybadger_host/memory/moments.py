"""A moment of the past, named by the number of a change, a time, or the hash of a context."""

import re
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from honeybadger_host.errors import NotFound, WorldFailed
from honeybadger_host.files.home import CLOCK_GRACE_SECONDS
from honeybadger_host.journal.reader import read_seq_at, read_time_after, read_time_of
from honeybadger_host.journal.schema import LAST_SEQ
from honeybadger_host.journal.transfer import last_of
from honeybadger_host.memory.injection_ledger import LEDGER_FILE, InjectionLedger, ServedContext
from honeybadger_host.text.time_stamps import read_moment

_HASH = re.compile(r"[0-9a-f]{12,32}")


class Moment(NamedTuple):
    """A moment.

    Args:
        seq: number of the last change up to it.
        at: milliseconds since the epoch.
        until: likewise; later contexts are left out.
        served: the context with the hash that named it.
    """

    seq: int
    at: int
    until: int = LAST_SEQ
    served: ServedContext | None = None


def moment_of(text: str, journal: Path, ledger: InjectionLedger, group: str, now: datetime) -> Moment:
    """Return the moment that a text names.

    Raises ValueError if it names none, or the clock was ahead then; NotFound if no kept context has the hash, or no
    change the number; JournalError, WorldFailed.
    """
    if _HASH.fullmatch(text):
        try:
            served = ledger.served(group, text)
        except (OSError, sqlite3.Error) as error:
            raise WorldFailed(f"{LEDGER_FILE} cannot be read: {error}") from error
        if served is None:
            raise NotFound(
                f"no context of {group} with the hash {text} is kept (context.kept_days): name a change by its number, "
                "or a time"
            )
        return Moment(served.seq, served.at, served=served)
    if text.isascii() and text.isdigit():
        seq, (newest, _) = int(text), last_of(journal)
        if seq > newest:
            raise NotFound(f"there is no change {text} yet: the newest is {newest}")
        return Moment(seq, read_time_of(journal, seq))
    at = read_moment(text, now)
    seq = read_seq_at(journal, at)
    if read_time_after(journal, seq) > (now.timestamp() + CLOCK_GRACE_SECONDS) * 1000:
        raise ValueError(
            f"the changes after {seq} have a time later than now, because the clock was ahead: nobody knows whether "
            f"they came before {text}, so name a change by its number"
        )
    return Moment(seq, at, at)
