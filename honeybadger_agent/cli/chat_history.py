"""What a person typed in chats, for the arrow keys: a file of the user's, one JSON string a line, oldest first.

Only what the host has looked at and found no credential in is written there; the rest stays in the running chat.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import orjson

KEPT: Final = 1000
"""Lines that a chat begins with; when there are twice as many the older ones are dropped."""
_MOST_CHARACTERS: Final = 8192
"""Of one line: who pastes a book will not look for it with the arrow keys."""


def history_path() -> Path:
    """Return where the file is: below `XDG_STATE_HOME`, else `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()
    return base / "honeybadger" / "chat_history"


def load_history(path: Path) -> list[str]:
    """Return the newest lines, oldest first; none when there is no file, or none that can be read."""
    try:
        with open(path, "rb", opener=_no_link) as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    if len(lines) > 2 * KEPT:
        lines = lines[-KEPT:]
        with contextlib.suppress(OSError):
            _replace(path, b"".join(line + b"\n" for line in lines))
    typed = []
    for line in lines[-KEPT:]:
        with contextlib.suppress(orjson.JSONDecodeError):  # torn by a power cut, or not ours
            if isinstance(value := orjson.loads(line), str):
                typed.append(value)
    return typed


def keep_typed(path: Path, text: str) -> None:
    """Append a line. Raises OSError: it is not kept."""
    if len(text) > _MOST_CHARACTERS:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "ab", opener=_private) as file:
        file.write(b"\n" * _is_torn(path) + orjson.dumps(text) + b"\n")


def _is_torn(path: Path) -> bool:
    with open(path, "rb", opener=_no_link) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        return size > 0 and file.read(1) != b"\n"


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(temporary, "xb", opener=_private) as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _private(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)  # also when somebody made it readable
    return fd
