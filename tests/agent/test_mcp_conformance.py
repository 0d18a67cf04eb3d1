"""The official conformance scenarios on the MCP server over HTTP: `make mcp-js` installs them and runs this.

The others ask for tools, resources and prompts of a test server, or for what this server does not offer; see
docs/connecting.md.
"""

import contextlib
import http.client
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.agent.test_mcp_http import serving, token_of
from tests.commands import finished
from tests.endpoint import listening
from tests.hosting import HostProcess, frozen_environment

MODULES = Path(__file__).parent / "mcp_client" / "node_modules"
NODE = MODULES / "node" / "bin" / "node"
PROGRAM = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
SCENARIOS = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection")

pytestmark = [
    pytest.mark.skipif(not PROGRAM.is_file(), reason="it is not installed: make mcp-js"),
    pytest.mark.timeout(1800),
]


@contextlib.contextmanager
def with_token(url: str, token: str) -> Iterator[str]:
    """Serve a door to a server that adds a token, which the program cannot send; gives its address."""
    inner = urlsplit(url)
    assert inner.hostname is not None

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            connection = http.client.HTTPConnection(str(inner.hostname), inner.port, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value.replace(str(server.server_port), str(inner.port)))
            connection.putheader("Authorization", f"Bearer {token}")
            connection.endheaders(body)
            answer = connection.getresponse()
            said = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)
            connection.close()

        def do_GET(self) -> None:
            self.send_error(405)  # a client that may not open a stream does without

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    with listening(server) as port:
        yield f"http://127.0.0.1:{port}{inner.path}"


def test_the_official_scenarios_pass(host: HostProcess, home: Path) -> None:
    with serving(home) as server, with_token(server.url, token_of(home, "judge")) as url:
        for scenario in SCENARIOS:
            command = [str(NODE), str(PROGRAM), "server", "--url", url, "--scenario", scenario]
            ran = finished(command, timeout=400, env=frozen_environment())
            assert ran.returncode == 0, ran.stdout + ran.stderr
            assert re.search(r"Passed: [1-9]\d*/\d+, 0 failed", ran.stdout), ran.stdout
