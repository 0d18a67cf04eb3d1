"""Replies that a power cut emptied: given again from their receipts, or removed.

A reply is renamed into place complete and is not synced (an fsync for each costs more than the whole road). After a
power cut its name may be there without its bytes. Whoever waits for it must not take that for an answer.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

import structlog

from honeybadger_host.ipc.box import Spool
from honeybadger_host.memory.journal import Journal

log = structlog.get_logger()

_AT_ONCE = 512


class Mended(NamedTuple):
    """How many empty replies were written again, and how many were removed: their requests are met or asked again."""

    given_again: int
    removed: int


def mend_replies(spool: Spool, journal: Journal) -> Mended:
    """Look for empty replies in all boxes, before they are served. What cannot be mended now stays as it is."""
    spool.discover()
    given_again = removed = 0
    for box, names in spool.empty_replies():
        opened = spool.open(box)
        if opened is None:
            continue
        try:
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                done = journal.receipts_of(box.group, box.sender, [name.removesuffix(".json") for name in some])
                for name in some:
                    with contextlib.suppress(OSError):
                        receipt = done.get(name.removesuffix(".json"))
                        if receipt is not None:
                            opened.reply(name, receipt[1])
                            given_again += 1
                        else:
                            os.unlink(name, dir_fd=opened.replies_fd)
                            removed += 1
        finally:
            opened.close()
    if given_again or removed:
        log.warning("replies.mended", given_again=given_again, removed=removed)
    return Mended(given_again, removed)
