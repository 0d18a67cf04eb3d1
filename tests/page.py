"""The operators' page as a process, and a browser without a screen: for tests over real HTTP on the loopback."""

import contextlib
import html
import http.client
import re
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import orjson

from tests.hosting import PATIENCE, Child, common_folder, forge, wait_for

SAME_ORIGIN = "same-origin"


@dataclass
class Form:
    """A form of a page: where it goes, what is in it, and its buttons by what they are called."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: dict[str, dict[str, str]] = field(default_factory=dict)


class _Forms(HTMLParser):
    """Finds the forms of a page that are sent with POST."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._form: Form | None = None
        self._within: dict[str, str] = {}
        self._text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "form" and given.get("method") == "post":
            self._form = Form(given["action"])
            self.found.append(self._form)
        elif tag == "input" and self._form and "name" in given:
            self._form.fields[given["name"]] = given.get("value", "")
        elif tag in ("button", "textarea"):
            self._within, self._text = given, ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea" and self._form:
            self._form.fields[self._within["name"]] = self._text.removeprefix("\n")
        elif tag == "button" and self._form:
            sent = {self._within["name"]: self._within["value"]} if "name" in self._within else {}
            self._form.buttons[self._within.get("aria-label") or self._text.strip()] = sent


@dataclass(frozen=True)
class Answer:
    """An answer of the page."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def words(self) -> str:
        """Its text as a person reads it, on one line."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.text.partition("<main")[2])).split())

    @property
    def location(self) -> str:
        return self.headers["Location"] or ""

    def form(self, button: str) -> Form:
        """Return the first form that has a button of this name."""
        forms = _Forms()
        forms.feed(self.text)
        found = next((form for form in forms.found if button in form.buttons), None)
        assert found is not None, f"no button {button!r}: {[name for form in forms.found for name in form.buttons]}"
        return found


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


@dataclass
class Browser:
    """Sends what a browser would; each header can be another one, or left out by None.

    Args:
        at: host and port, as in the link; empty: on a socket.
    """

    at: str
    socket: Path | None = None
    cookie: str | None = None

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.send("GET", path, None, headers)

    def post(self, path: str, form: Mapping[str, object], **headers: str | None) -> Answer:
        """Send a form as the page's own would be sent."""
        return self.send("POST", path, urlencode(form).encode(), headers)

    def press(self, page: Answer, button: str, **fields: object) -> Answer:
        """Press a button of a page, with other words in the fields of its form; follow where it leads."""
        form = page.form(button)
        assert fields.keys() <= form.fields.keys(), form
        answer = self.post(form.action, {**form.fields, **fields, **form.buttons[button]})
        return self.get(answer.location.partition("#")[0]) if answer.status == 303 else answer

    @contextlib.contextmanager
    def stream(self, path: str) -> Iterator[Iterator[tuple[str, Any]]]:
        """Open a stream of events; yield each with what it says."""
        connection = http.client.HTTPConnection(self.at, timeout=PATIENCE)
        connection.request("GET", path, headers={"Cookie": self.cookie or ""})
        answer = connection.getresponse()
        assert answer.status == 200

        def events() -> Iterator[tuple[str, Any]]:
            name = ""
            while line := answer.readline().decode():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ").rstrip("\n")
                if line.startswith("data: "):
                    yield name, orjson.loads(line.removeprefix("data: "))

        try:
            yield events()
        finally:
            connection.close()

    def send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str | None]) -> Answer:
        connection = _Unix(self.socket) if self.socket else http.client.HTTPConnection(self.at, timeout=PATIENCE)
        given: dict[str, str | None] = {"Host": self.at or "localhost", "Cookie": self.cookie}
        if body is not None:
            given |= {"Origin": f"http://{self.at or 'localhost'}", "Sec-Fetch-Site": SAME_ORIGIN}
            given |= {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(body))}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()

    def enter(self, link: str) -> Answer:
        """Open the link and keep the cookie."""
        parts = urlsplit(link)
        answer = self.get(f"/enter?{parts.query}")
        if given := answer.headers["Set-Cookie"]:
            self.cookie = given.partition(";")[0]
        return answer


@dataclass
class Page:
    """A page on a home, from `start` to `stop`.

    Args:
        arguments: of `honeybadger-host web`, beside the home and a free port.
    """

    home: Path
    arguments: tuple[str, ...] = ("--write",)
    printed: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(dir=common_folder())) / "stdout")
    process: Child | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()

    def start(self) -> Self:
        where = () if "--socket" in self.arguments or "--port" in self.arguments else ("--port", "0")
        arguments = ["web", "--home", str(self.home), *where, *self.arguments]
        self.printed.write_bytes(b"")
        self.process = forge("honeybadger_host.web.server").fork(
            arguments, {}, stdout=self.printed, stderr=self.printed.with_name("stderr")
        )
        wait_for(lambda: "\n" in self.printed.read_text() or self.has_ended, what="the link of the page")
        assert not self.has_ended, self.log_text()
        return self

    @property
    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def link(self) -> str:
        return self.printed.read_text().splitlines()[0]

    def browser(self, *, is_signed_in: bool = True, link: str | None = None) -> Browser:
        """Return a browser, which comes in by the link unless told otherwise."""
        parts = urlsplit(link or self.link)
        path = Path(parts.path.removesuffix("/enter")) if parts.scheme == "unix" else None
        browser = Browser(parts.netloc, path)
        if is_signed_in:
            entered = browser.enter(link or self.link)
            assert entered.status == 200, (entered.words, self.log_text())
        return browser

    def stop(self) -> None:
        """Stop it as an operator does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.log_text()

    def log_text(self) -> str:
        error = self.printed.with_name("stderr")
        return error.read_text() if error.is_file() else ""
