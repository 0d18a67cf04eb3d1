"""What was typed in chats: kept for its user alone, and never in the way of a chat."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from honeybadger_agent.cli.chat_history import KEPT, history_path, keep_typed, load_history


def test_what_is_kept_comes_back_in_its_order_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "state" / "chat_history"
    typed = ["one", "two\nlines", "ünï\u2028code", '"quoted"']
    for text in typed:
        keep_typed(path, text)
    assert load_history(path) == typed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_somebody_made_readable_is_made_private_again(tmp_path: Path) -> None:
    path = tmp_path / "chat_history"
    path.write_text("")
    path.chmod(0o644)
    keep_typed(path, "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_torn_line_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "chat_history"
    path.write_bytes(b'"one"\n\xff\n[1]\n"tor')
    keep_typed(path, "two")
    assert load_history(path) == ["one", "two"]


def test_a_long_history_loses_its_oldest_lines(tmp_path: Path) -> None:
    path = tmp_path / "chat_history"
    path.write_text("".join(f'"{number}"\n' for number in range(2 * KEPT + 1)))
    assert load_history(path)[0] == str(KEPT + 1)
    assert len(path.read_text().splitlines()) == KEPT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["chat_history"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path, other = tmp_path / "chat_history", tmp_path / "other"
    other.write_text('"other"\n')
    path.symlink_to(other)
    assert load_history(path) == []
    with pytest.raises(OSError, match="symbolic"):
        keep_typed(path, "one")
    assert other.read_text() == '"other"\n'


def test_it_lies_where_the_user_keeps_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert history_path() == tmp_path / ".local/state/honeybadger/chat_history"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # which the specification says to ignore
    assert history_path() == tmp_path / ".local/state/honeybadger/chat_history"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert history_path() == tmp_path / "state/honeybadger/chat_history"
