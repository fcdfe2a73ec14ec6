"""One task's part of a write: its rows as transactions, each of which the gateway applies once.

The first message of a transaction has a duplicate id: the write, the task's partition and the number of the
transaction in it.  A task that Spark runs again sends the same transactions; those that were applied are refused then,
and count as written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.values.message import DUPLICATE_ID_NAMES
from spark_bridge.write.connection import Connection, KnownBefore
from spark_bridge.write.options import WriteOptions
from spark_bridge.write.rows import frame_of

# Below the gateway's defaults for ``transaction-actions`` (10,000) and ``transaction-bytes`` (64 MiB).
TRANSACTION_ROWS: Final = 9_000
TRANSACTION_BYTES: Final = 32 * 1024 * 1024
DUPLICATE_ID: Final = DUPLICATE_ID_NAMES[0]


@dataclass(frozen=True, slots=True)
class Written:
    """rows: written by this task.  known: of those, rows in transactions that had been applied before."""

    rows: int = 0
    known: int = 0


def write_rows(options: WriteOptions, part_id: str, rows: Iterable[Mapping[str, Any]]) -> Written:
    """Send rows.  part_id: names this part of the write, the same whenever it is tried again.

    Raises: WriteFailed, ValueError for a row that is no message.
    """
    task = _Task(options, part_id)
    try:
        for row in rows:
            task.add(*frame_of(row, options.destination))
        task.end_transaction()
    finally:
        task.close()
    return Written(task.rows, task.known)


class _Task:
    def __init__(self, options: WriteOptions, part_id: str) -> None:
        self._options = options
        self._part_id = part_id
        self._connection: Connection | None = None
        self._number = 0
        self._open_rows = 0
        self._open_bytes = 0
        self.rows = 0
        self.known = 0

    def add(self, destination: str, body: bytes, headers: dict[str, str]) -> None:
        size = len(body) + sum(len(name) + len(value) for name, value in headers.items())
        if self._open_rows >= TRANSACTION_ROWS or (self._open_rows and self._open_bytes + size > TRANSACTION_BYTES):
            self.end_transaction()
        name = f"{self._part_id}/{self._number}"
        connection = self._connected()
        if not self._open_rows:
            connection.begin(name)
            headers = {**headers, DUPLICATE_ID: name}
        connection.send(name, destination, body, headers)
        self._open_rows += 1
        self._open_bytes += size

    def end_transaction(self) -> None:
        """Apply the open transaction, if there is one."""
        if not self._open_rows:
            return
        try:
            self._connected().end(f"{self._part_id}/{self._number}")
        except KnownBefore:
            self.known += self._open_rows
            self.close()  # an ERROR ends the connection
        self.rows += self._open_rows
        self._number += 1
        self._open_rows = self._open_bytes = 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._options)
        return self._connection
