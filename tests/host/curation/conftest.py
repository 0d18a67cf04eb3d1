"""Everything that a pass works with, on a home of its own."""

import time
from pathlib import Path
from typing import Any, cast

import pytest

from honeybadger_host.curation.passes import PassDependencies
from honeybadger_host.files.file_cache import KeptFiles
from honeybadger_host.journal.changes import WholeFiles
from honeybadger_host.memory.compaction import CompactionLimits
from honeybadger_host.memory.entries.store import EntryFiles
from honeybadger_host.memory.markdown.group_files import GroupFiles
from honeybadger_host.memory.session_document_store import Sessions
from honeybadger_host.memory.turn_log_store import TurnLogs, Watermarks
from honeybadger_host.settings import Settings


@pytest.fixture
def uses(home: Path) -> PassDependencies:
    turn_logs = TurnLogs(home, window_turns=50, clock=time.monotonic)
    whole_files = WholeFiles(home)
    return PassDependencies(
        home,
        asker=cast(Any, None),
        files=GroupFiles(home),
        change=cast(Any, None),
        waiting_groups=tuple,
        is_agent=lambda name: name == "bee",
        turn_logs=turn_logs,
        documents=Sessions(turn_logs, whole_files, CompactionLimits(), lambda file: None),
        watermarks=Watermarks(KeptFiles(home)),
        whole_files=whole_files,
        entry_files=EntryFiles(home),
        memory_window=50,
        settings=Settings(),
        give_way=lambda: None,
    )
