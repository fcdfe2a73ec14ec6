"""The records of one TLS connection: octets in, content out, and back.  No sockets, no turns."""

from __future__ import annotations

import ssl
from typing import Final

RECORD_BYTES: Final = 16 * 1024  # the most that a record holds
# One call of OpenSSL works off all key updates that it sees.  Each takes 20 microseconds, as long as 20 tiny records.
CHUNK_BYTES: Final = 4 * 1024  # that OpenSSL sees at a time
CHUNK_RECORDS: Final = 8  # complete ones
CHUNK_EMPTY_RECORDS: Final = 2  # once the peer has sent some without content
EMPTY_RECORDS: Final = 20  # for which one without content counts
HEADER_BYTES: Final = 5  # of a record: type, version, length(2) of what follows


class Piece:
    """What was decrypted in one go.  is_over: the peer says that no more comes.  is_broken: it breaks the protocol."""

    __slots__ = ("content", "is_over", "is_broken")

    def __init__(self) -> None:
        self.content: list[bytes] = []
        self.is_over = False
        self.is_broken = False


class TlsRecords:
    """The server's side.

    _arrived: octets that OpenSSL has not seen.  _header: the beginning of a header that it has seen.
    _record_left: octets of a record whose header it has seen.  _seen_records: whole ones, less those with content.
    _chunk_records: that it sees at a time.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._arrived = bytearray()
        self._header = bytearray()
        self._record_left = 0
        self._seen_records = 0
        self._chunk_records = CHUNK_RECORDS
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def add(self, octets: memoryview) -> None:
        """Take what has come; nothing is decrypted yet."""
        self._arrived += octets

    def is_empty(self) -> bool:
        return not self._arrived and not self._incoming.pending

    def shake(self) -> bool:
        """Go on with the handshake; say whether it is done.  Raises: SSLError."""
        while self._feed():
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                continue
            self._seen_records = 0
            return True
        return False

    def decrypt(self, records: int, size_bytes: int) -> Piece:
        """Decrypt at most so many records, or those in about so many octets that have come."""
        incoming = self._incoming
        piece = Piece()
        try:
            while records > 0 and size_bytes > 0 and (incoming.pending or self._arrived):
                if not incoming.pending:
                    size_bytes -= self._feed()
                try:
                    content = self.tls.read(RECORD_BYTES)
                except ssl.SSLWantReadError:  # all that it has seen is worked off
                    records -= self._count_empty()
                    continue
                if not content:
                    piece.is_over = True
                    break
                piece.content.append(content)
                records -= 1
                self._seen_records -= 1
        except ssl.SSLError:
            piece.is_broken = True
        return piece

    def encrypt(self, content: bytes | bytearray | memoryview) -> None:
        """Raises: SSLError."""
        rest = memoryview(content)
        while rest:
            rest = rest[self.tls.write(rest) :]

    def end_output(self) -> None:
        """Tell the peer that we send no more."""
        try:
            self.tls.unwrap()
        except ssl.SSLError:  # it waits for the same from the peer, or finds other records
            pass

    def take_output(self) -> bytes:
        """Return the octets for the peer: content, answers and alerts."""
        return self._outgoing.read()

    # -- the steps

    def _feed(self) -> int:
        """Show OpenSSL some of what has come, and count the records that are complete; return how many octets."""
        arrived = self._arrived
        most = min(len(arrived), CHUNK_BYTES)
        end = records = 0
        while end < most and records < self._chunk_records:
            if self._record_left:
                part = min(self._record_left, most - end)
                end += part
                self._record_left -= part
            else:
                header = self._header
                part = min(HEADER_BYTES - len(header), most - end)
                header += arrived[end : end + part]
                end += part
                if len(header) < HEADER_BYTES:
                    break
                self._record_left = header[3] << 8 | header[4]
                header.clear()
            if not self._record_left:
                records += 1
        self._seen_records += records
        chunk = bytes(arrived[:end])
        del arrived[:end]
        return self._incoming.write(chunk)

    def _count_empty(self) -> int:
        """Return for how many records those count that OpenSSL has seen and that had no content."""
        count = max(0, self._seen_records)
        self._seen_records = 0
        self._chunk_records = CHUNK_EMPTY_RECORDS if count else CHUNK_RECORDS
        return count * EMPTY_RECORDS
