"""Access to the page: a link that works once opens a session of twelve hours. Pure, except for random numbers."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Final

SESSION_SECONDS: Final = 12 * 3600
_MAX_SESSIONS: Final = 100


class Access:
    """Links and sessions of one page; both end with its process. Used on one event loop.

    Args:
        clock: monotonic seconds.
        renewed: told of each new token, before anybody can know it.
    """

    def __init__(self, clock: Callable[[], float], renewed: Callable[[str], None]) -> None:
        self._clock = clock
        self._renewed = renewed
        self._sessions: dict[bytes, float] = {}
        """Digest of a cookie -> when it ends."""
        self._token = b""
        self._renew()

    def enter(self, token: str) -> str | None:
        """Return the cookie of a new session; None: the token is wrong, or was used."""
        if not secrets.compare_digest(_digest(token), self._token):
            return None
        self._renew()
        cookie = secrets.token_urlsafe(32)
        while len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[_digest(cookie)] = self._clock() + SESSION_SECONDS
        return cookie

    def knows(self, cookie: str) -> bool:
        """Return whether a cookie is of a session that has not ended."""
        return self._sessions.get(_digest(cookie), 0.0) > self._clock()

    def _renew(self) -> None:
        token = secrets.token_urlsafe(32)
        self._token = _digest(token)
        self._renewed(token)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
