"""The cost of a million imported turns, and a group's way out and in: time, and the most memory of each process.

Not among what `python -m bench` runs by itself: it takes half an hour and 6 GiB of disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.hosting import Daemon, new_home, running
from bench.index import Words
from bench.pipeline import Figure

_MILLION = 1_000_000
_TURNS_OF_ONE = 50


def bench_transfer(base: Path, turns: int = _MILLION) -> list[Figure]:
    """A million turns of ChatGPT's format into a home that is served, out of it, and into another."""
    figures: list[Figure] = []
    with new_home(base) as home, new_home(base) as other:
        source = home / "conversations.json"
        _write_conversations(source, Words(7), turns)
        with running(home, ("log.level=warning",)) as host:
            seconds, peak = _timed("import", "main", source, "--home", home)
            of_host = _peak_of(host)
            figures += [
                Figure(f"{turns:,} turns imported", f"{seconds:,.0f} s", goal="600 s", is_met=seconds <= 600),
                Figure("... the most memory of the command", f"{peak:,.0f} MiB", goal="300 MiB", is_met=peak <= 300),
                Figure("... the most memory of the host", f"{of_host:,.0f} MiB", goal="300 MiB", is_met=of_host <= 300),
            ]
            seconds, _ = _timed("import", "main", source, "--home", home)
            figures.append(Figure("... imported again, nothing new", f"{seconds:,.0f} s"))
        archive = home / "main.tar.gz"
        for name, where, words in (
            ("exported", home, ("export", "main", "--to", archive)),
            ("loaded into another home", other, ("import", "main", archive)),
        ):
            seconds, peak = _timed(*words, "--home", where)
            figures.append(Figure(f"... {name}", f"{seconds:,.0f} s, {peak:,.0f} MiB"))
    return figures


def _write_conversations(path: Path, words: Words, turns: int) -> None:
    """Write an export as ChatGPT makes them, conversation by conversation."""
    with path.open("w") as file:
        file.write("[")
        for number in range(turns // _TURNS_OF_ONE):
            mapping = {}
            for turn in range(_TURNS_OF_ONE):
                role = "assistant" if turn % 2 else "user"
                said = {"id": f"m{turn}", "author": {"role": role}, "create_time": 1.6e9 + number * 3600 + turn}
                content = {"content_type": "text", "parts": [words.text(20, 60)]}
                parent = f"m{turn - 1}" if turn else None
                mapping[f"m{turn}"] = {"id": f"m{turn}", "parent": parent, "message": {**said, "content": content}}
            one = {"conversation_id": f"c{number}", "current_node": f"m{_TURNS_OF_ONE - 1}", "mapping": mapping}
            file.write(("," if number else "") + json.dumps(one))
        file.write("]")


def _timed(*words: object) -> tuple[float, float]:
    """Run a command; return how long it took, and the most memory it had, in MiB."""
    measured = "import resource,subprocess,sys;subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL);"
    measured += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    began = time.monotonic()
    command = [sys.executable, "-c", measured, sys.executable, "-m", "honeybadger_host", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.monotonic() - began, int(done.stdout) / 1024


def _peak_of(host: Daemon) -> float:
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
