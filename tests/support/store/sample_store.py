"""Writes stores for tests of readers: directly from the layouts, without the gateway's own store.

A test can also ask for things that a gateway would not leave behind on purpose: torn tails, gaps, unfinished
transactions, consume queues that lag.
"""

from __future__ import annotations

import json
from pathlib import Path

from crc32c import crc32c

from engine.store.format import layout
from engine.store.format.record_encoder import pack_record
from engine.values.destination import QUEUE
from engine.values.message import IN_TRANSACTION, PERSISTENT, STOMP
from engine.values.outcomes import ACKNOWLEDGED

DAY_ONE_MS = 1_700_000_000_000  # 2023-11-14


class SampleStore:
    """One store being written.  Nothing is visible to readers until ``publish``."""

    def __init__(self, directory: Path, store_id: str = "0badcafe", segment_bytes: int = 64 * 1024) -> None:
        self.directory = directory
        self.store_id = store_id
        self.segment_bytes = segment_bytes
        self.now_ms = DAY_ONE_MS
        self.offset = 0
        self.sequence = 1
        self.entries_offset = 0
        self._durable_offset = -1  # as published, -1 before
        self.first_offset = 0
        self.generation = 0
        self._destinations: dict[int, tuple[int, str]] = {}
        self._tails: dict[tuple[int, int], int] = {}
        self._entries: dict[tuple[int, int], list[bytes]] = {}
        self._transaction: tuple[int, int] | None = None
        (directory / "commitlog").mkdir(parents=True)
        (directory / "store.json").write_text(
            json.dumps({"format": layout.FORMAT_VERSION, "store_id": store_id, "created_ms": self.now_ms})
        )
        self._open_segment(0, 0)

    def _open_segment(self, base: int, flags: int) -> None:
        self.offset = self.base = base
        self.limit = base + self.segment_bytes
        self.path = self.directory / "commitlog" / f"{base:020}.log"
        head = layout.SEGMENT_HEADER.pack(
            layout.SEGMENT_MAGIC,
            layout.FORMAT_VERSION,
            flags,
            base,
            self.segment_bytes,
            self.now_ms,
            self.store_id.encode("ascii"),
        )
        self._file = open(self.path, "w+b", buffering=1 << 20)  # noqa: SIM115
        self._file.truncate(layout.SEGMENT_HEADER_BYTES + self.segment_bytes)
        self._file.write(head + layout.CRC.pack(crc32c(head)))
        self._file.seek(layout.SEGMENT_HEADER_BYTES)
        if not flags & layout.CONTINUATION:
            self.entries_offset = base
            self._write_entries()
            self._record(layout.SNAPSHOT, 0, self._snapshot())

    def _snapshot(self) -> bytes:
        destinations = [
            {"id": number, "kind": kind, "name": name, "lanes": []}
            for number, (kind, name) in self._destinations.items()
        ]
        snapshot = {"sequence": self.sequence, "system_tail": 0, "destinations": destinations}
        return json.dumps(snapshot, separators=(",", ":")).encode()

    def roll(self) -> None:
        """Leave the rest of the segment empty and continue in the next one."""
        base = self.limit
        self._file.close()
        self._open_segment(base, 0)

    def seal(self) -> None:
        """Write the seal: the segment ends here although it has room left."""
        seal = layout.SEAL.pack(self.offset, self.sequence)
        self._file.seek(layout.SEAL_POSITION)
        self._file.write(seal + layout.CRC.pack(crc32c(seal)))
        self._file.seek(layout.SEGMENT_HEADER_BYTES + self.offset - self.base)

    def continue_after_failed_sync(self) -> None:
        """Seal, and continue at the same offset in a continuation segment."""
        self.seal()
        self._file.close()
        self._open_segment(self.offset, layout.CONTINUATION)

    def destination(self, name: str, kind: int = QUEUE) -> int:
        """Return the number of a new destination."""
        number = len(self._destinations) + 1
        self._destinations[number] = (kind, name)
        described = {"id": number, "kind": kind, "name": name}
        self._record(layout.DESTINATION, number, json.dumps(described, separators=(",", ":")).encode())
        return number

    def send(
        self,
        destination_id: int,
        body: bytes = b"",
        headers: bytes = b"",
        annotations: bytes = b"",
        flags: int = PERSISTENT,
        priority: int = 4,
        expires_ms: int = 0,
        encoding: int = STOMP,
    ) -> int:
        """Append a message; return its log offset."""
        size = layout.MESSAGE_HEAD_BYTES + len(annotations) + len(headers) + len(body)
        self._make_room(size)
        lane = (destination_id, priority)
        queue_offset = self._tails.get(lane, 0)
        self._tails[lane] = queue_offset + 1
        flags |= self._transaction_flag()
        rest = layout.RECORD_REST.pack(
            layout.MESSAGE, encoding, flags, destination_id, self.offset, self.sequence, self.now_ms
        )
        rest += layout.MESSAGE_FIXED.pack(
            len(annotations), len(headers), len(body), priority, 0, 0, 0, 0, expires_ms, queue_offset
        )
        payload = annotations + headers + body
        self._entry(lane, size, flags & 255, priority, layout.MESSAGE, 0, expires_ms)
        return self._append(layout.SIZE_AND_CRC.pack(size, crc32c(payload, crc32c(rest))) + rest + payload)

    def settle(
        self, destination_id: int, *ranges: tuple[int, int], outcome: int = ACKNOWLEDGED, priority: int = 4
    ) -> int:
        """Append one settlement record; ranges: (first, count)."""
        payload = layout.SETTLEMENT_FIXED.pack(0, 0, outcome, 0, 0, len(ranges), 0)
        payload += b"".join(layout.RANGE.pack(first, count, priority, 0, 0) for first, count in ranges)
        return self._record(layout.SETTLEMENT, destination_id, payload)

    def begin(self) -> None:
        """Begin a transaction; ``commit`` ends it."""
        self._transaction = (self.sequence, 0)

    def commit(self) -> None:
        """Close the transaction."""
        assert self._transaction is not None
        first, _ = self._transaction
        payload = layout.COMMIT_FIXED.pack(first, self.sequence - first, 0)
        self._transaction = None
        self._record(layout.COMMIT, 0, payload)

    def _transaction_flag(self) -> int:
        return IN_TRANSACTION if self._transaction is not None else 0

    def _record(self, record_type: int, destination_id: int, payload: bytes) -> int:
        size = layout.RECORD_HEADER_BYTES + len(payload)
        self._make_room(size)
        self._entry((layout.SYSTEM_QUEUE, 0), size, 0, 0, record_type, destination_id, 0)
        return self._append(
            pack_record(
                record_type, self._transaction_flag(), destination_id, self.offset, self.sequence, self.now_ms, payload
            )
        )

    def _entry(
        self, lane: tuple[int, int], size: int, flags: int, priority: int, record_type: int, tag: int, expires_ms: int
    ) -> None:
        self._entries.setdefault(lane, []).append(
            layout.ENTRY.pack(self.offset, size, flags, priority, record_type, 0, tag, 0, expires_ms, self.now_ms)
        )

    def _make_room(self, size: int) -> None:
        if self.offset + size > self.limit:
            assert self._transaction is None, "a transaction stays in one segment"
            self.roll()

    def _append(self, octets: bytes) -> int:
        offset = self.offset
        self._file.write(octets)
        self._file.write(b"\0" * (-len(octets) % layout.ALIGNMENT))
        self.offset += layout.padded(len(octets))
        self.sequence += 1
        return offset

    def append_octets(self, octets: bytes = b"") -> None:
        """Write a torn tail, which is no record; it and everything before it are then in the file."""
        self._file.seek(layout.SEGMENT_HEADER_BYTES + self.offset - self.base)
        self._file.write(octets)
        self._file.flush()

    def _write_entries(self) -> None:
        for (destination_id, priority), entries in self._entries.items():
            folder = self.directory / "consumequeue" / str(destination_id) / str(priority)
            folder.mkdir(parents=True, exist_ok=True)
            written = sum(path.stat().st_size for path in folder.iterdir()) // layout.ENTRY_BYTES
            while entries:
                first = written - written % layout.ENTRIES_PER_FILE
                count = first + layout.ENTRIES_PER_FILE - written
                # The first file of a lane is named by its first entry.
                with open(folder / f"{first:020}.cq", "ab") as file:
                    file.write(b"".join(entries[:count]))
                written += len(entries[:count])
                del entries[:count]

    def publish(self, is_clean: bool = False, durable_offset: int | None = None, generation: int | None = None) -> None:
        """Write the checkpoint as after a sync; ``is_clean``: as at a clean stop, with all consume-queue entries."""
        self._file.flush()
        if is_clean:
            self._write_entries()
            self.entries_offset = self.offset
        self.generation = self.generation + 1 if generation is None else generation
        self._durable_offset = self.offset if durable_offset is None else durable_offset
        body = layout.CHECKPOINT.pack(
            layout.CHECKPOINT_MAGIC,
            layout.FORMAT_VERSION,
            layout.CLEAN_STOP if is_clean else 0,
            self.generation,
            self._durable_offset,
            self.now_ms,
            self.sequence,
            self.entries_offset,
            self.first_offset,
            1,
        )
        slot = (body + layout.CRC.pack(crc32c(body))).ljust(layout.CHECKPOINT_SLOT_BYTES, b"\0")
        path = self.directory / "checkpoint"
        octets = path.read_bytes() if path.exists() else bytes(layout.CHECKPOINT_SLOT_BYTES * 2)
        at = self.generation % 2 * layout.CHECKPOINT_SLOT_BYTES
        path.write_bytes(octets[:at] + slot + octets[at + layout.CHECKPOINT_SLOT_BYTES :])

    def drop_first_segment(self) -> None:
        """Drop a segment like retention, which publishes where the log begins before it removes a file."""
        paths = sorted((self.directory / "commitlog").iterdir())
        self.first_offset = int(paths[1].stem)
        if self._durable_offset >= 0:
            self.publish(durable_offset=self._durable_offset)
        paths[0].unlink()

    def __enter__(self) -> SampleStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
