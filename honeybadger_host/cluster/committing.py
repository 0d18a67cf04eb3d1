"""A transaction of the journal becomes a record of the shared log before it is committed on this machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

from honeybadger_host.cluster.log import Log
from honeybadger_host.cluster.records import Statement, dump_statements, write_position

_WRITES: Final = ("INSERT", "UPDATE", "DELETE", "REPLACE")  # statements that other machines run again


class _Recorded:
    """A connection, as far as transactions use one, that remembers what writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.statements: list[Statement] = []

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        if not sql.startswith("SELECT"):
            self._keep(sql, [tuple(values)])
        return self._connection.execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        kept = [tuple(row) for row in rows]
        if kept:
            self._keep(sql, kept)
        return self._connection.executemany(sql, kept)

    def _keep(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        assert sql.startswith(_WRITES), f"other machines cannot run it again: {sql}"  # noqa: S101  a bug here
        self.statements.append((sql, rows))


class Committing:
    """See `SharedLog`. The writer's thread."""

    def __init__(self, log: Log, settle: Callable[[], list[tuple[str, str]]]) -> None:
        self._log = log
        self.settle = settle
        self._recorded: _Recorded | None = None
        self._is_last = False

    def record(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        self._recorded, self._is_last = _Recorded(connection), False
        return cast(sqlite3.Connection, self._recorded)

    def end_stream(self) -> None:
        self._is_last = True

    def commit(self, connection: sqlite3.Connection) -> None:
        statements = [] if self._recorded is None else self._recorded.statements
        if not statements:
            connection.execute("COMMIT")
            return
        position = self._log.append(dump_statements(statements), is_last=self._is_last)
        try:
            write_position(connection, position)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._log.fail(
                f"the journal here did not take what the shared log has ({error}): see that its disk has room; the "
                "next start reads it there"
            ) from error
