"""The lease: which machine owns a home, and until when no other machine can.

The lease is one message. The servers remove it after `LEASE_SECONDS`; until then only its holder replaces it. It only
prevents needless takeovers: the log is what refuses the records of an earlier owner.
"""

import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from honeybadger_host.cluster.log import UNCLEAR_SECONDS, Log, Names, newest_epoch
from honeybadger_host.cluster.servers import (
    EXPECTED_OF_SUBJECT_HEADER,
    PAUSE_SECONDS,
    Servers,
    Unreachable,
    WrongSequence,
)
from honeybadger_host.errors import StorageFailed

# An owner that has not renewed its lease for this long may be replaced.
LEASE_SECONDS = 3.0
OWNERS = "HB_OWNERS"
OWNERS_SUBJECT = "hb.*.owner"
_EVERY_SECONDS = 0.5
_SURE_SHARE = 0.8  # of a lease in which its holder answers: clocks do not run equally fast


def put_lease(servers: Servers, names: Names, node: str, next_holder: str, lapsed: int = 0) -> int:
    """Write who holds the lease, if it is this machine's or free; return its place, or 0. Raises Unreachable.

    Args:
        node: this machine.
        next_holder: this machine, to take or renew the lease; another one, which need not wait; empty: none.
        lapsed: place of another machine's lease that may be replaced, see `Watched`; 0: none.
    """
    held = servers.message(OWNERS, newest=names.subject("owner"))
    if held is not None and held.data not in (b"", node.encode()) and held.seq != lapsed:
        return 0
    return _write(servers, names, next_holder, held.seq if held else 0)


def _write(servers: Servers, names: Names, next_holder: str, after: int) -> int:
    """Write who holds the lease, if the last lease has this place; return the new one's, else 0. Raises Unreachable."""
    try:
        return servers.publish(names.subject("owner"), next_holder.encode(), {EXPECTED_OF_SUBJECT_HEADER: str(after)})
    except WrongSequence:
        return 0


def holder(servers: Servers, names: Names) -> str | None:
    """Return the machine that holds the lease, or None. Raises Unreachable."""
    held = servers.message(OWNERS, newest=names.subject("owner"))
    return None if held is None or not held.data else held.data.decode()


@dataclass(slots=True)
class Watched:
    """The lease as a waiting machine sees it, timed by its own clock.

    The servers expire a lease by their clocks; a clock ahead of the others may delay that by minutes.

    Attributes:
        lapsed: place of the lease that was not renewed for its time, 0 while there is none.
        last: who held it last, as far as this machine saw.
        free_since: when it was first seen that nobody holds it, monotonic; None: somebody does.
    """

    lapsed: int = 0
    last: str = ""
    free_since: float | None = None
    _seq: int = 0
    _since: float = 0.0

    def holder(self, servers: Servers, names: Names) -> str | None:
        """Return the machine that holds the lease, or None if nobody renewed it in time. Raises Unreachable."""
        held, now = servers.message(OWNERS, newest=names.subject("owner")), time.monotonic()
        if held is not None and held.data:
            if held.seq != self._seq:
                self._seq, self._since = held.seq, now
            self.lapsed = held.seq if now > self._since + LEASE_SECONDS else 0
            if not self.lapsed:
                self.last, self.free_since = held.data.decode(), None
                return self.last
        self.free_since = self.free_since or now
        return None


class Renewing:
    """Renews the lease of an owner, on a thread, until it is closed; sees when another machine owns the home."""

    def __init__(self, shared_log: Log, node: str, renewed_at: float) -> None:
        """Begin.

        Args:
            renewed_at: just before the lease was taken, monotonic.
        """
        self._log, self._node = shared_log, node
        self.renewed_at = renewed_at
        # Two threads with many short system calls pass Python's lock to each other and never hold it for this long, so
        # a third one waits: with the usual 5 ms the lease's thread woke up to 4.1 s late on a busy machine.
        sys.setswitchinterval(0.0005)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def wait_until_sure(self) -> None:
        """Wait until no other machine can own the home. Raises StorageFailed if another one does."""
        while not self._log.failed and time.monotonic() > self.renewed_at + _SURE_SHARE * LEASE_SECONDS:
            time.sleep(0.01)
        if self._log.failed:
            raise StorageFailed(self._log.failed)

    def _renew(self) -> None:
        seq, now = 0, time.monotonic()
        # The pause does not begin after the answers: each may take long where a machine is busy.
        while not self._ending.wait(max(PAUSE_SECONDS, now + _EVERY_SECONDS - time.monotonic())):
            now, why = time.monotonic(), "another machine has asked to own the home, and does not"
            try:
                seq = _write(self._log.servers, self._log.names, self._node, seq) or put_lease(
                    self._log.servers, self._log.names, self._node, self._node
                )
                epoch = newest_epoch(self._log.servers, self._log.names)
                if epoch > self._log.epoch:
                    self._log.fail("another machine owns this home now: this one follows it")
                    return
                if seq:
                    self.renewed_at = now
            except Unreachable as error:
                why = f"the servers of the cluster do not answer: {error}"
            if now - self.renewed_at > UNCLEAR_SECONDS:
                self._log.fail(f"for {UNCLEAR_SECONDS:g} s nobody said that this machine owns the home: {why}")
                return

    def close(self, following: str) -> None:
        """Stop renewing the lease; give it to the named machine, or back."""
        self._ending.set()
        self._thread.join(10)
        with suppress(Unreachable):
            put_lease(self._log.servers, self._log.names, self._node, following)
