"""A connection under TLS.

The event loop's own TLS decrypts all that has come in one go: a read of records of one octet each takes tens of
milliseconds, and ten clients add up.  It also ends a connection together with its peer's input.  Here all connections
share what one turn may decrypt, and a peer that sends no more still gets the answers it is owed.  ``TlsRecords`` does
the decrypting.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any, Final, cast

from gateway.connections.input_turns import InputTurns
from gateway.connections.tls_records import TlsRecords

READ_BYTES: Final = 64 * 1024  # of a socket at a time
PIECE_RECORDS: Final = 256  # decrypted in one piece: tiny ones take about a microsecond each
PIECE_BYTES: Final = 64 * 1024
RECORDS_AT_ONCE: Final = 32  # of each connection in its first read of a turn, whatever the others send
BYTES_AT_ONCE: Final = 17 * 1024
HUNG_UP: Final = "the peer has ended the connection"


@dataclass(slots=True, eq=False)
class TlsInput:
    """What the connections of all listeners share.

    buffer: of each read; its octets are taken before the next one.  turns: which connections may decrypt in this turn.
    """

    turns: InputTurns = field(default_factory=InputTurns)
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BYTES)))


class TlsStream(asyncio.Transport, asyncio.BufferedProtocol):
    """The server's side of TLS: the protocol of a plain transport, and the transport of ``protocol``.

    ``protocol`` is connected once the handshake is done.
    _shaken: why the handshake failed, in words: an error would keep its frames, which keep this connection; "" if it is
    done.  _is_waiting: until it is this connection's turn.
    _is_input_over: the peer sends no more; _is_input_ended: the protocol knows.  _is_output_over: nor do we.
    """

    def __init__(self, context: ssl.SSLContext, protocol: asyncio.Protocol, shared: TlsInput) -> None:
        super().__init__()
        self._context = context
        self._protocol = protocol
        self._shared = shared
        self._records = TlsRecords(context)
        self._inner: asyncio.Transport | None = None
        self._shaken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._is_shaking = True
        self._is_waiting = False
        self._turn = -1  # of the last read
        self._is_paused = False
        self._is_inner_paused = False
        self._is_input_over = False
        self._is_input_ended = False
        self._is_output_over = False
        self._is_output_paused = False

    async def handshake(self, time_s: float) -> None:
        """Wait until the handshake is done.  Raises: OSError, also after ``time_s``."""
        try:
            async with asyncio.timeout(time_s):
                fault = await self._shaken
        except TimeoutError:
            raise ConnectionAbortedError(f"it takes longer than {time_s:g} s") from None
        if fault:
            raise ConnectionAbortedError(fault)

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner = cast(asyncio.Transport, transport)  # uvloop's own class, which has no base class in asyncio

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_input_ended or self._is_output_over:
            return
        self._records.add(self._shared.buffer[:nbytes])
        if self._is_waiting:
            return
        if not self._is_shaking:
            self._read()
        elif self._shared.turns.take():
            self._shake()
        else:
            self._wait()
            self._settle()

    def eof_received(self) -> bool:
        """Return True to keep our side open.

        A peer may end TCP without a word of TLS: what it cuts off are whole frames in any case.
        """
        self._is_input_over = True
        if self._is_shaking:
            self._end_handshake(HUNG_UP)
            return False
        self._settle()
        return not self.is_closing()

    def pause_writing(self) -> None:
        self._is_output_paused = True
        if not self._is_shaking:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._is_output_paused = False
        if not self._is_shaking:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner = None
        if self._is_shaking:
            self._end_handshake((str(exc) if exc is not None else "") or HUNG_UP)
        else:
            self._protocol.connection_lost(exc)

    # -- called by the protocol

    def pause_reading(self) -> None:
        self._is_paused = True
        self._settle()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._settle()

    def is_reading(self) -> bool:
        return not self._is_paused

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_output_over or self.is_closing():
            return
        try:
            self._records.encrypt(data)
        except ssl.SSLError:
            self.abort()
            return
        self._pass_on()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """End our side; what the peer still sends is dropped."""
        self._end_output()
        if self._inner is not None:
            self._inner.write_eof()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self.is_closing():
            self._end_output()
            if self._inner is not None:
                self._inner.close()

    def abort(self) -> None:
        if self._inner is not None:
            self._inner.abort()

    def is_closing(self) -> bool:
        return self._inner is None or self._inner.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        tls = self._records.tls
        if name == "ssl_object":
            return tls
        if name == "sslcontext":
            return self._context
        if name == "peercert":
            return tls.getpeercert()
        if name == "cipher":
            return tls.cipher()
        return default if self._inner is None else self._inner.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._inner is not None:
            self._inner.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._inner is None else self._inner.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (0, 0) if self._inner is None else self._inner.get_write_buffer_limits()

    # -- the steps

    def _shake(self) -> None:
        if self.is_closing():
            return
        try:
            is_done = self._records.shake()
        except ssl.SSLError as error:
            self._pass_on()  # an alert
            self._end_handshake(str(error) or type(error).__name__)
            return
        self._pass_on()
        if is_done:
            self._is_shaking = False
            self._protocol.connection_made(self)
            self._end_handshake("")
            self._read()

    def _end_handshake(self, fault: str) -> None:
        if not self._shaken.done():
            self._shaken.set_result(fault)

    def _read(self) -> None:
        """Decrypt a little at once, and more of it while this turn allows."""
        turns = self._shared.turns
        if self._turn != turns.number:
            self._turn = turns.number
            turns.begin_soon()
            self._decrypt(RECORDS_AT_ONCE, BYTES_AT_ONCE)
        while self._has_records() and turns.take():
            self._decrypt(PIECE_RECORDS, PIECE_BYTES)
        self._settle()

    def _go_on(self) -> None:
        self._is_waiting = False
        if self._is_shaking:
            self._shake()
        else:
            self._decrypt(PIECE_RECORDS, PIECE_BYTES)
        self._settle()

    def _wait(self) -> None:
        self._is_waiting = True
        self._shared.turns.wait(self._go_on)

    def _has_records(self) -> bool:
        """Say whether octets that have come may be decrypted."""
        is_over = self._is_shaking or self._is_paused or self._is_input_ended or self._is_output_over
        return not is_over and not self._records.is_empty() and not self.is_closing()

    def _decrypt(self, records: int, size_bytes: int) -> None:
        """Give the protocol at most so many records, or those in about so many octets that have come."""
        if not self._has_records():
            return
        piece = self._records.decrypt(records, size_bytes)
        self._pass_on(is_answer=True)
        if piece.content:
            self._protocol.data_received(b"".join(piece.content))
        if piece.is_broken:
            self.abort()
        elif piece.is_over:
            self._end_input()

    def _settle(self) -> None:
        """Wait for this connection's turn, end the input, or let the socket be read: what its state asks for."""
        if self.is_closing():
            return
        if self._has_records() and not self._is_waiting:
            self._wait()
        if self._is_input_over and not self._is_paused and not self._is_waiting:
            self._end_input()
        self._rest(not self._is_output_over and (self._is_paused or self._is_waiting))

    def _rest(self, is_resting: bool) -> None:
        inner = self._inner
        if inner is None or inner.is_closing() or is_resting is self._is_inner_paused:
            return
        self._is_inner_paused = is_resting
        if is_resting:
            inner.pause_reading()
        else:
            inner.resume_reading()

    def _end_input(self) -> None:
        if not self._is_input_ended:
            self._is_input_ended = True
            if not self._protocol.eof_received():
                self.close()

    def _end_output(self) -> None:
        """Say that we send no more."""
        if not self._is_output_over and not self._is_shaking:
            self._is_output_over = True
            self._records.end_output()
            self._pass_on()

    def _pass_on(self, is_answer: bool = False) -> None:
        """Write what TLS has to say.  is_answer: to what the peer has sent, and not of the protocol."""
        octets = self._records.take_output()
        if not octets or self.is_closing() or self._inner is None:
            return
        if is_answer and self._is_output_paused:
            self.abort()  # it asks for new keys again and again, and reads no answer
        else:
            self._inner.write(octets)
