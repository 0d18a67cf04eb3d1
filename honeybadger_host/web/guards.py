"""The checks before every page: the session, the origin of a change, and what a browser may do with the answer.

`docs/decisions/036-page.md` lists the attack that each check prevents.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from honeybadger_host.spool.rate_limits import MAX_REQUEST_BYTES, Buckets
from honeybadger_host.web.rendering import problem

ENTER = "/enter"
STATIC = "/static"
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends a form with `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]+))?")  # the allowed values of `Host`
SESSION_SECONDS = 12 * 3600  # after which the operator needs a new link


class Access:
    """Access to the page: a link that works once opens a session of twelve hours. Both end with the process.

    Args:
        clock: monotonic seconds.
        renewed: called with each new token, before anybody else knows it.
    """

    def __init__(self, clock: Callable[[], float], renewed: Callable[[str], None]) -> None:
        self._clock = clock
        self._renewed = renewed
        self._sessions: dict[bytes, float] = {}  # digest of a cookie -> the time at which it expires
        self._renew()

    def enter(self, token: str) -> str | None:
        """Return the cookie of a new session, or None if the token is wrong or was used."""
        if not secrets.compare_digest(_digest(token), self._token):
            return None
        self._renew()
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = self._clock() + SESSION_SECONDS
        return cookie

    def knows(self, cookie: str) -> bool:
        """Return whether a cookie belongs to a session that has not expired."""
        return self._sessions.get(_digest(cookie), 0.0) > self._clock()

    def _renew(self) -> None:
        token = secrets.token_urlsafe(32)
        self._token = _digest(token)
        self._renewed(token)


class Guards:
    """Passes allowed requests to the app, and adds `HEADERS` to every answer.

    Args:
        cookie: name of the session's cookie.
        port: the port in `Host`; None: any, as for a socket that is forwarded.
    """

    def __init__(self, app: ASGIApp, access: Access, cookie: str, port: int | None, *, may_write: bool) -> None:
        self._app = app
        self._access = access
        self._cookie = cookie
        self._port = port
        self._may_write = may_write
        self._buckets = {False: Buckets(10, 60), True: Buckets(40, 200)}  # of strangers, of visitors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no WebSockets, no lifespan
        is_static = scope["path"].startswith(f"{STATIC}/")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if is_static:
                    headers["Cache-Control"] = "no-cache"  # a browser asks whether its copy is current
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is refused, or None if it is allowed."""
        headers, path = Headers(scope=scope), str(scope["path"])
        host = headers.getlist("host")
        found = _LOOPBACK.fullmatch(host[0]) if len(host) == 1 else None
        if found is None or (self._port is not None and found[1] != str(self._port)):
            return problem(403, "This page is not served under that name", "Use the link that the command printed.")
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        is_known = self._access.knows(cookie)
        if self._buckets[is_known].take(cookie if is_known else "", time.monotonic()):
            return problem(429, "Too many requests", "Wait a moment, then load the page again.", retry_after=2)
        if not is_known and path != ENTER and not path.startswith(f"{STATIC}/"):
            return problem(
                401,
                "You are not signed in",
                "Run honeybadger-host web on the host's machine and open the link it prints. A link works once; a "
                f"session ends after {SESSION_SECONDS // 3600} hours.",
            )
        return self._refused_change(headers, host[0]) if scope["method"] == "POST" else None

    def _refused_change(self, headers: Headers, host: str) -> Response | None:
        if headers.getlist("origin") != [f"http://{host}"] or headers.getlist("sec-fetch-site") != ["same-origin"]:
            return problem(403, "That change did not come from this page", "Open the page itself and try again there.")
        if not self._may_write:
            return problem(
                403, "This page only reads", "Start it with honeybadger-host web --write to change something here."
            )
        size, limit = headers.get("content-length", ""), 3 * MAX_REQUEST_BYTES  # a form has each byte as %E4
        if not size.isdigit() or int(size) > limit:
            return problem(413, "That is too large", f"A form may have {limit} bytes. Nothing was changed.")
        return None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
