"""The addresses on which the page listens."""

from __future__ import annotations

import socket

from honeybadger_host.web.server import _listening


def test_a_streamed_answer_does_not_wait_for_the_browser() -> None:
    with _listening(0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
