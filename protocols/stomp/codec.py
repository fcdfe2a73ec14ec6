"""Octets to frames and back, STOMP 1.0, 1.1 and 1.2.  No sockets, no clock, no meaning of any header.

    stream  = *( EOL / NUL ) *( frame *( EOL / NUL ) )
    frame   = command EOL *( name ":" value EOL ) EOL body NUL
    EOL     = [CR] LF                                            CR is taken in every version

There are two ways through the decoder.  ``next_frame_slow`` is the clear one: it knows every rule, keeps a frame that
is still in parts, and refuses what it must.  ``next_frame`` gives the same results (a property test says so) and first
tries, on whole frames in one read, what real clients send most:

1. a SEND like the last one: nothing but the receipt's value and the body's octets differ (``_guess_*``);
2. a SEND whose head, less receipt and content-length, was parsed before (``_heads``);
3. an ACK or NACK that has an id and perhaps a receipt, and nothing else.

What each version does to a header (CONNECT, STOMP and CONNECTED: always as in 1.0):

    version   reading                                    writing a LF, a colon, a backslash, a CR
    1.0       blanks around values go, no escapes        blank, kept (blank in a name), kept, kept
    1.1       \\n \\c \\\\, any other escape is an error    \\n, \\c, \\\\, kept
    1.2       \\n \\c \\\\ \\r, any other is an error       \\n, \\c, \\\\, \\r

A NUL cannot stand in a header of any version: read, it is an error; written, it becomes a blank.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from protocols.stomp.errors import FrameError, FrameTooLarge
from protocols.stomp.frames import (
    ACK,
    BODIED,
    COMMANDS,
    CONNECTED,
    CONTROL_HEADERS,
    NACK,
    NAMES,
    SEND,
    VERSIONLESS,
    Frame,
    Head,
)

VERSION_1_0: Final = 10
VERSION_1_1: Final = 11
VERSION_1_2: Final = 12


class Limits:
    """What one frame may hold.  Defaults are ActiveMQ's.

    header_line_bytes: name, colon and value of one header, as on the wire, without the line end; 64 or more.
    header_count, command_bytes: 2 and 16 or more.
    """

    __slots__ = ("header_count", "header_line_bytes", "command_bytes", "body_bytes")

    def __init__(
        self,
        header_count: int = 1000,
        header_line_bytes: int = 10240,
        command_bytes: int = 1024,
        body_bytes: int = 100 * 1024 * 1024,
    ) -> None:
        # Below these the fast ways would have to measure what no sane limit forbids.
        assert header_line_bytes >= 64, f"header_line_bytes is {header_line_bytes}, at least 64"
        assert header_count >= 2, f"header_count is {header_count}, at least 2"
        assert command_bytes >= 16, f"command_bytes is {command_bytes}, at least 16"
        self.header_count = header_count
        self.header_line_bytes = header_line_bytes
        self.command_bytes = command_bytes
        self.body_bytes = body_bytes

    def before_login(self) -> Limits:
        """Return what a peer may send before we know it: RabbitMQ's 100 headers and 64 KiB, if that is less."""
        return Limits(
            min(self.header_count, 100), self.header_line_bytes, self.command_bytes, min(self.body_bytes, 64 * 1024)
        )


# Where the decoder is.
_BETWEEN: Final = 0  # the buffer begins with a frame, or with what may stand between frames
_HEAD: Final = 1  # ``_partial`` holds the beginning of a head
_SIZED_BODY: Final = 2  # ``_chunks`` hold the beginning of a body with a content-length
_OPEN_BODY: Final = 3  # the same, ending at the first NUL
_DEAD: Final = 4

_FILLER: Final = b"\n\r\0"  # between frames; a CR also alone, as stomp-php skips it
_CLIENT_COMMANDS: Final = b", ".join(name for name, command in COMMANDS.items() if command < CONNECTED).decode()

# A head is searched in pieces of this size, so that a peer whose heads end in CR LF costs no scan of a whole read.
_PIECE_BYTES: Final = 4096
# Heads beyond this are not kept for the fast ways, and no more than this many.
_KEPT_HEAD_BYTES: Final = 1024
_KEPT_HEADS: Final = 256
# Body chunks below the first are gathered in pieces of up to the second: one octet a read must not cost a list item.
_SMALL_CHUNK_BYTES: Final = 4096
_GATHERED_BYTES: Final = 65536

_CONTENT_LENGTH: Final = b"\ncontent-length:"
_CONTENT_LENGTH_SIZE: Final = len(_CONTENT_LENGTH)
_RECEIPT: Final = b"\nreceipt:"
_RECEIPT_SIZE: Final = len(_RECEIPT)
_LENGTH_DIGITS: Final = 15

# A value that every version reads as it stands: no blanks to trim, no escape, no CR, nothing to decode.
_PLAIN: Final = re.compile(rb"[!-\[\]-~]+")
_WORD: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_-]{0,31}")
_HTTP: Final = re.compile(rb"[A-Z]+ [^ ]+ HTTP/|HTTP/")

_ORD_LF: Final = 10
_ORD_CR: Final = 13
_ORD_A: Final = 65
_ORD_N: Final = 78
_ORD_S: Final = 83


class Decoder:
    """Frames out of one connection's octets, in whatever pieces they come.  Either end of the wire.

    Call ``next_frame`` until it returns None after each ``receive_data``.  The session sets ``version`` when the
    peers have agreed on one, before it asks for the frame behind CONNECT or CONNECTED, and ``limits`` after a login.
    After an error every call of ``next_frame`` raises it again and further octets are dropped.
    """

    __slots__ = (
        "_version",
        "_limits",
        "_body_max",
        "_value_max",
        "_state",
        "_buffer",
        "_position",
        "_waiting",
        "_error",
        "_partial",
        "_partial_lines",
        "_chunks",
        "_collected",
        "_head",
        "_receipt",
        "_id",
        "_length",
        "_heads",
        "_known",
        "_known_length",
        "_ack",
        "_nack",
        "_guess_before",
        "_guess_before_size",
        "_guess_after",
        "_guess_after_size",
        "_guess_has_receipt",
        "_guess_head",
        "_guess_length",
    )

    def __init__(self, limits: Limits | None = None) -> None:
        self._version = VERSION_1_0
        self._limits = limits or Limits()
        self._body_max = self._limits.body_bytes
        self._value_max = _value_max(self._limits)
        self._state = _BETWEEN
        self._buffer = b""
        self._position = 0
        self._waiting: deque[bytes] = deque()  # reads that came while the buffer still held something
        self._error: FrameError | None = None
        self._partial = bytearray()
        self._partial_lines = 0
        self._chunks: list[bytes | bytearray] = []
        self._collected = 0
        # Of the frame whose body is being read.
        self._head = Head(SEND, {}, -1, b"")
        self._receipt: bytes | None = None
        self._id: bytes | None = None
        self._length = -1
        # The fast ways.
        self._heads: dict[bytes, Head] = {}
        self._known = self._head
        self._known_length = -1
        self._ack = Head(ACK, {}, -1, b"")
        self._nack = Head(NACK, {}, -1, b"")
        self._guess_before = b"\0"
        self._guess_before_size = 1
        self._guess_after = b""
        self._guess_after_size = 0
        self._guess_has_receipt = False
        self._guess_head = self._head
        self._guess_length = -1

    @property
    def version(self) -> int:
        """10, 11 or 12; 10 until the session sets it."""
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        assert version in (VERSION_1_0, VERSION_1_1, VERSION_1_2), f"version is {version}"
        self._version = version
        self._forget()

    @property
    def limits(self) -> Limits:
        """What a frame may hold; the session may raise it when it knows its peer."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        self._body_max = limits.body_bytes
        self._value_max = _value_max(limits)
        self._forget()

    def receive_data(self, octets: bytes) -> None:
        """Take one read's octets, to be handed out by ``next_frame``."""
        if self._position >= len(self._buffer) and not self._waiting:
            self._buffer = octets
            self._position = 0
        else:
            self._waiting.append(octets)
        if self._state == _DEAD:
            self._drop()

    def has_partial(self) -> bool:
        """Say whether a frame has begun and not ended, once ``next_frame`` has returned None."""
        return _HEAD <= self._state <= _OPEN_BODY

    def buffered_bytes(self) -> int:
        """Return how many octets are held that are not yet a frame."""
        waiting = sum(len(octets) for octets in self._waiting)
        return len(self._partial) + self._collected + len(self._buffer) - self._position + waiting

    def next_frame(self) -> Frame | None:
        """Return the next frame, or None for "more octets please".

        Raises: FrameError, with what was seen and what is allowed.
        """
        if self._state != _BETWEEN:
            return self.next_frame_slow()
        buffer = self._buffer
        start = self._position
        size = len(buffer)
        while True:
            if start >= size:
                self._position = size
                if self._waiting:
                    return self.next_frame_slow()
                self._buffer = b""  # an idle connection does not keep its last read
                self._position = 0
                return None
            octet = buffer[start]
            if octet > _ORD_CR or octet not in _FILLER:
                break
            start += 1
        self._position = start

        if octet == _ORD_S:
            if buffer.startswith(self._guess_before, start):
                at = start + self._guess_before_size
                receipt: bytes | None = None
                if self._guess_has_receipt:
                    stop = buffer.find(self._guess_after, at, at + self._value_max + self._guess_after_size)
                    if stop < 0:
                        return self._next_known(start)
                    receipt = buffer[at:stop]
                    # A LF, too, is not plain: what was found is the end of this very line.
                    if not receipt.isalnum() and not _PLAIN.fullmatch(receipt):
                        return self._next_known(start)
                    at = stop + self._guess_after_size
                end = at + self._guess_length if self._guess_length >= 0 else buffer.find(b"\0", at)
                if at <= end < size and buffer[end] == 0 and end - at <= self._body_max:
                    self._position = end + 1
                    return Frame(SEND, self._guess_head, receipt, None, buffer[at:end])
            return self._next_known(start)

        if octet == _ORD_A and buffer.startswith(b"ACK\nid:", start):
            at = start + 7
            stop = buffer.find(b"\n\n\0", at, at + self._value_max + 3)
            if stop > at:
                id_octets = buffer[at:stop]
                if id_octets.isalnum():
                    self._position = stop + 3
                    return Frame(ACK, self._ack, None, id_octets, b"")
            return self._next_with_id(ACK, at)
        if octet == _ORD_N and buffer.startswith(b"NACK\nid:", start):
            return self._next_with_id(NACK, start + 8)
        return self.next_frame_slow()

    def _next_with_id(self, command: int, at: int) -> Frame | None:
        """Return the ACK or NACK whose id begins at ``at``, if nothing else but a receipt stands in it."""
        buffer = self._buffer
        stop = buffer.find(b"\n", at, at + self._value_max + 1)
        if stop < 0:
            return self.next_frame_slow()
        id_octets = buffer[at:stop]
        if not id_octets.isalnum() and not _PLAIN.fullmatch(id_octets):
            return self.next_frame_slow()
        head = self._ack if command == ACK else self._nack
        if buffer.startswith(b"\n\n\0", stop):
            self._position = stop + 3
            return Frame(command, head, None, id_octets, b"")
        if buffer.startswith(_RECEIPT, stop):
            at = stop + _RECEIPT_SIZE
            stop = buffer.find(b"\n\n\0", at, at + self._value_max + 3)
            if stop >= 0:
                receipt = buffer[at:stop]
                if receipt.isalnum() or _PLAIN.fullmatch(receipt):
                    self._position = stop + 3
                    return Frame(command, head, receipt, id_octets, b"")
        return self.next_frame_slow()

    def _next_known(self, start: int) -> Frame | None:
        """Return the SEND at ``start`` by way of ``_heads``; parse its head and keep it there if it is new.

        The key is the head without its first receipt line, and without its first content-length line but for the LF
        before it: the empty line that this leaves cannot stand in any other key.
        """
        buffer = self._buffer
        if not buffer.startswith(b"SEND\n", start):
            return self.next_frame_slow()
        end = buffer.find(b"\n\n", start, start + _KEPT_HEAD_BYTES)
        if end < 0:
            return self.next_frame_slow()
        octets = buffer[start:end]
        receipt: bytes | None = None
        key, found, rest = octets.partition(_RECEIPT)
        if found:
            receipt, line_end, rest = rest.partition(b"\n")
            if len(receipt) > self._value_max or not (receipt.isalnum() or _PLAIN.fullmatch(receipt)):
                return self.next_frame_slow()
            if line_end:
                key += b"\n" + rest
        length = -1
        before, found, rest = key.partition(_CONTENT_LENGTH)
        if found:
            digits, line_end, rest = rest.partition(b"\n")
            if not digits.isdigit() or len(digits) > _LENGTH_DIGITS:
                return self.next_frame_slow()
            length = int(digits)
            key = before + b"\n\n" + rest if line_end else before + b"\n"
        at = end + 2
        stop = at + length if length >= 0 else buffer.find(b"\0", at)
        if not at <= stop < len(buffer) or buffer[stop] != 0 or stop - at > self._body_max:
            return self.next_frame_slow()  # still in parts, or wrong
        head = self._heads.get(key)
        if head is None:
            try:
                head = self._parse(octets)
            except FrameError:
                # Raised again there, and for good; or no error at all, if the head ends before, at LF CR LF.
                return self.next_frame_slow()
            if len(self._heads) >= _KEPT_HEADS:
                self._heads.clear()
            self._heads[key] = head
        elif head is self._known and length == self._known_length:
            self._guess(octets, b"\n\n", head, length)  # this costs something: only for a head twice in a row
        self._known = head
        self._known_length = length
        self._position = stop + 1
        return Frame(SEND, head, receipt, None, buffer[at:stop])

    def _guess(self, octets: bytes, terminator: bytes, head: Head, length: int) -> None:
        """Take it that the next SEND has these octets for its head, but for the receipt's value."""
        before, found, rest = octets.partition(_RECEIPT)
        after = b""
        if found:
            before += found
            receipt, line_end, rest = rest.partition(b"\n")
            after = (b"\r" if receipt.endswith(b"\r") else b"") + line_end + rest
            after += terminator
        else:
            before += terminator
        self._guess_before = before
        self._guess_before_size = len(before)
        self._guess_after = after
        self._guess_after_size = len(after)
        self._guess_has_receipt = bool(found)
        self._guess_head = head
        self._guess_length = length

    def _forget(self) -> None:
        """Nothing that was parsed under another version or other limits may be used again."""
        self._heads.clear()
        self._known = self._head
        self._guess(b"\0", b"", self._head, -1)

    # The clear way.

    def next_frame_slow(self) -> Frame | None:
        """Do what ``next_frame`` does, by the rules alone."""
        if self._error is not None:
            raise self._error
        try:
            while True:
                frame = self._advance()
                if frame is not None:
                    return frame
                self._buffer = self._waiting.popleft() if self._waiting else b""
                self._position = 0
                if not self._buffer and not self._waiting:
                    return None
        except FrameError as error:
            self._error = error
            self._state = _DEAD
            self._drop()
            raise

    def _drop(self) -> None:
        self._buffer = b""
        self._position = 0
        self._waiting.clear()
        self._partial = bytearray()
        self._chunks = []
        self._collected = 0
        self._forget()

    def _advance(self) -> Frame | None:
        """Go on with the buffer; return a frame, or None when all of it is used up."""
        if self._state == _BETWEEN:
            buffer = self._buffer
            while self._position < len(buffer) and buffer[self._position] in _FILLER:
                self._position += 1
            if self._position == len(buffer):
                return None
            self._state = _HEAD
            self._partial_lines = 0
        if self._state == _HEAD and not self._collect_head():
            return None
        return self._collect_body()

    def _collect_head(self) -> bool:
        """Take octets for the head until it is whole; then parse it and return True."""
        buffer = self._buffer
        partial = self._partial
        if not partial:
            start = self._position
            end = _find_head_end(buffer, start, min(start + _PIECE_BYTES, len(buffer)))
            if end >= 0:
                self._position = end + (2 if buffer[end + 1] == _ORD_LF else 3)
                self._open(buffer[start:end], buffer[end : self._position])
                return True
        while self._position < len(buffer):
            seen = len(partial)
            piece = buffer[self._position : self._position + _PIECE_BYTES]
            partial += piece
            end = _find_head_end(partial, max(seen - 2, 0), len(partial))  # it may have begun in the piece before
            if end >= 0:
                after = end + (2 if partial[end + 1] == _ORD_LF else 3)
                self._position += after - seen
                self._open(bytes(partial[:end]), bytes(partial[end:after]))
                self._partial = bytearray()
                return True
            self._position += len(piece)
            self._check_partial(seen)
        return False

    def _open(self, octets: bytes, terminator: bytes) -> None:
        """Parse a whole head; what comes next is its body."""
        head = self._parse(octets)
        self._head = head
        self._length = head.content_length if head.command in BODIED else -1
        self._state = _SIZED_BODY if self._length >= 0 else _OPEN_BODY
        if head.command == SEND and len(octets) <= _KEPT_HEAD_BYTES:
            self._guess(octets, terminator, head, self._length)  # the fast way of peers whose lines end in CR LF

    def _check_partial(self, seen: int) -> None:
        """Refuse a head that cannot become a good one, before more of it is kept.

        seen: how much of it was looked at before.
        """
        partial = self._partial
        limits = self._limits
        if self._partial_lines == 0:
            line_end = partial.find(b"\n", seen)
            line = bytes(partial if line_end < 0 else partial[:line_end])
            self._check_command(line, is_whole=line_end >= 0)
        if partial.find(b"\0", seen) >= 0:
            raise FrameError(_NUL_IN_HEAD)
        lines = self._partial_lines
        self._partial_lines += partial.count(b"\n", seen)
        if self._partial_lines - 1 > limits.header_count:
            raise FrameTooLarge(_too_many_headers(limits))
        if len(partial) <= limits.header_line_bytes:
            return
        start = partial.rfind(b"\n", 0, seen) + 1
        while start < len(partial):
            end = partial.find(b"\n", start)
            size = (len(partial) if end < 0 else end) - start
            # A CR is no part of the line: not the one before the LF, nor one that may turn out to be.
            if size > limits.header_line_bytes and end >= 0 and partial[end - 1] == _ORD_CR:
                size -= 1
            if lines > 0 and size > limits.header_line_bytes + (1 if end < 0 else 0):
                raise FrameTooLarge(_line_too_long(lines, limits))
            if end < 0:
                return
            lines += 1
            start = end + 1

    def _check_command(self, line: bytes, is_whole: bool) -> int:
        """Return the number of a whole command line, 0 for the beginning of one that may still become good."""
        if line.endswith(b"\r") and is_whole:
            line = line[:-1]
        command = COMMANDS.get(line, 0) if is_whole else 0
        if command > 0:
            return command
        first = line[0]
        if first == 0x16:
            raise FrameError("this looks like TLS; this port speaks STOMP in the clear")
        if line.startswith(b"AMQP"):
            raise FrameError("this looks like AMQP; this port speaks STOMP")
        if not 0x20 < first < 0x7F:
            raise FrameError(f"a command cannot begin with octet {first:#04x}; allowed are {_CLIENT_COMMANDS}")
        if b"\0" in line[: self._limits.command_bytes]:
            raise FrameError(_NUL_IN_HEAD)
        if len(line) > self._limits.command_bytes:
            raise FrameTooLarge(f"the command line is longer than {self._limits.command_bytes} octets")
        if not is_whole:
            return 0
        if _HTTP.match(line):
            raise FrameError("this looks like HTTP; this port speaks STOMP")
        seen = (
            f"unknown command '{line.decode()}'" if _WORD.fullmatch(line) else f"a command line of {len(line)} octets"
        )
        raise FrameError(f"{seen}; allowed are {_CLIENT_COMMANDS}, in capitals")

    def _parse(self, octets: bytes) -> Head:
        """Return what a whole head says; sets ``_receipt`` and ``_id`` beside it."""
        limits = self._limits
        first_line, _, _ = octets.partition(b"\n")
        command = COMMANDS.get(first_line, 0)
        if command == 0:
            command = self._check_command(first_line, is_whole=True)
        if b"\0" in octets:
            raise FrameError(_NUL_IN_HEAD)
        try:
            text = octets.decode()
        except UnicodeDecodeError as error:
            number = octets.count(b"\n", 0, error.start)
            raise FrameError(f"header line {number} is not valid UTF-8") from None
        lines = text.split("\n")
        del lines[0]
        if len(lines) > limits.header_count:
            raise FrameTooLarge(_too_many_headers(limits))
        if len(octets) > limits.header_line_bytes:
            self._check_lines(octets)
        version = VERSION_1_0 if command in VERSIONLESS else self._version

        headers: dict[str, str] = {}
        kept: list[str] = []
        receipt: str | None = None
        if "\\" not in text and "\r" not in text and (version > VERSION_1_0 or (" " not in text and "\t" not in text)):
            # Most heads: no escape, no CR, nothing to trim; the lines are as 1.2 writes them, but for a colon perhaps.
            has_colons = text.count(":") > len(lines)
            for line in lines:
                name, colon, value = line.partition(":")
                if not name or not colon:
                    raise FrameError(_bad_line(lines, line))
                if name not in headers:
                    headers[name] = value
                    if name not in CONTROL_HEADERS:
                        if has_colons and ":" in value:
                            line = name + ":" + value.replace(":", "\\c")
                        kept.append(line)
            receipt = headers.pop("receipt", None)
        else:
            for line in lines:
                whole = line.removesuffix("\r")
                name, colon, value = whole.partition(":")
                if not name or not colon:
                    raise FrameError(_bad_line(lines, line))
                if version == VERSION_1_0:
                    value = value.strip(" \t")
                raw = value
                if "\\" in whole:
                    name = unescape(name, version)
                    value = unescape(value, version)
                if name == "receipt":
                    receipt = raw if receipt is None else receipt
                elif name not in headers:
                    headers[name] = value
                    if name not in CONTROL_HEADERS:
                        kept.append(_escape_1_2(name) + ":" + _escape_1_2(value))

        length = -1
        digits = headers.pop("content-length", None)
        if digits is not None:
            length = self._parse_length(digits, command)
        self._receipt = None if receipt is None else receipt.encode()
        self._id = None
        if command == SEND:
            kept.append("")
            return Head(SEND, headers, length, "\n".join(kept).encode())
        if command in (ACK, NACK) and len(headers) == 1 and "id" in headers:
            self._id = headers["id"].encode()
            return self._ack if command == ACK else self._nack
        return Head(command, headers, length, b"")

    def _parse_length(self, digits: str, command: int) -> int:
        digits = digits.strip(" \t")  # some clients pad it, in every version
        if not digits.isascii() or not digits.isdigit():
            raise FrameError("content-length is not a decimal number")
        # Not all of a number without end is turned into one.
        length = int(digits) if len(digits.lstrip("0")) <= _LENGTH_DIGITS else 10**_LENGTH_DIGITS
        if length > self._body_max:
            name = NAMES[command].decode()
            raise FrameTooLarge(
                f"content-length of {name} is {digits[: _LENGTH_DIGITS + 1]}, the limit is {self._body_max}"
            )
        return length

    def _check_lines(self, octets: bytes) -> None:
        limit = self._limits.header_line_bytes
        for number, line in enumerate(octets.split(b"\n")):
            if number > 0 and len(line.removesuffix(b"\r")) > limit:
                raise FrameTooLarge(_line_too_long(number, self._limits))

    def _collect_body(self) -> Frame | None:
        buffer = self._buffer
        start = self._position
        size = len(buffer)
        if self._state == _SIZED_BODY:
            end = start + self._length - self._collected
            if end < size and buffer[end] != 0:
                raise FrameError(
                    f"the octet after the {self._length} of content-length is {buffer[end]:#04x}, not the NUL that ends"
                    " a frame"
                )
        else:
            end = buffer.find(b"\0", start)
            if end < 0:
                end = size
            if self._collected + end - start > self._body_max:
                raise FrameTooLarge(f"the body is longer than {self._body_max} octets")
        if end >= size:
            self._collect(buffer[start:] if start > 0 else buffer)  # a whole read is not copied
            self._position = size
            return None
        body = buffer[start:end]
        if self._collected > 0:
            self._chunks.append(body)
            body = b"".join(self._chunks)
            self._chunks = []
            self._collected = 0
        self._position = end + 1
        self._state = _BETWEEN
        head = self._head
        return Frame(head.command, head, self._receipt, self._id, body if head.command in BODIED else b"")

    def _collect(self, chunk: bytes) -> None:
        self._collected += len(chunk)
        if self._head.command not in BODIED:
            return  # counted against the limit, and not kept
        if len(chunk) >= _SMALL_CHUNK_BYTES:
            self._chunks.append(chunk)
            return
        if self._chunks:
            last = self._chunks[-1]
            if isinstance(last, bytearray) and len(last) < _GATHERED_BYTES:
                last += chunk
                return
        self._chunks.append(bytearray(chunk))


def _value_max(limits: Limits) -> int:
    """Return how long an id or a receipt may be on the fast ways: its line keeps to the limit."""
    return min(_KEPT_HEAD_BYTES, limits.header_line_bytes - _RECEIPT_SIZE)


def _find_head_end(octets: bytes | bytearray, start: int, stop: int) -> int:
    """Return where the first LF LF or LF CR LF begins, or -1."""
    end = octets.find(b"\n\n", start, stop)
    end_crlf = octets.find(b"\n\r\n", start, end + 1 if end >= 0 else stop)
    return end if end_crlf < 0 else end_crlf


_NUL_IN_HEAD: Final = "a NUL stands before the empty line that ends the headers"


def _too_many_headers(limits: Limits) -> str:
    return f"more than {limits.header_count} headers"


def _line_too_long(number: int, limits: Limits) -> str:
    return f"header line {number} is longer than {limits.header_line_bytes} octets"


def _bad_line(lines: list[str], line: str) -> str:
    """The line itself is not shown: it may be half a password."""
    fault = "has an empty name" if line.startswith(":") else "has no colon"
    return f"header line {lines.index(line) + 1} {fault}; allowed is name:value"


def encode(command: int, headers: list[tuple[str, str]], body: bytes, version: int) -> bytes:
    """Return one frame: these headers in this order, and a content-length if ``body`` could not do without it.

    That is, if a NUL is in it and the caller gave none: a client may read content-length as "not a text".
    The LF behind the NUL is for clients that look for both together (old PHP) or for a line (telnet).
    """
    if command in VERSIONLESS:
        version = VERSION_1_0
    lines = [NAMES[command]]
    has_length = False
    for name, value in headers:
        has_length = has_length or name == "content-length"
        lines.append(_escape_name(name, version) + b":" + escape(value, version))
    if b"\0" in body and not has_length:
        lines.append(b"content-length:%d" % len(body))
    lines.append(b"\n")
    return b"\n".join(lines) + body + b"\0\n"


def escape(text: str, version: int) -> bytes:
    """Return a header's value as it stands on the wire; see the table at the top of this file."""
    if version == VERSION_1_0:
        text = text.replace("\n", " ")
    else:
        text = _escape_1_2(text) if version == VERSION_1_2 else _escape_1_1(text)
    return text.replace("\0", " ").encode()


def unescape(text: str, version: int) -> str:
    """Return a header's name or value without its escapes.

    Raises: FrameError for an escape that the version does not know.
    """
    if version == VERSION_1_0:
        return text
    at = text.find("\\")
    if at < 0:
        return text
    parts: list[str] = []
    start = 0
    while at >= 0:
        parts.append(text[start:at])
        letter = text[at + 1 : at + 2]
        plain = _UNESCAPED.get(letter, "")
        if not plain or (plain == "\r" and version == VERSION_1_1):
            allowed = "\\n \\c \\\\" if version == VERSION_1_1 else "\\n \\c \\\\ \\r"
            seen = "\\" + letter if letter.isprintable() else "a backslash before an unprintable character"
            raise FrameError(f"unknown escape in a header: {seen}; allowed in version {version / 10} are {allowed}")
        parts.append(plain)
        start = at + 2
        at = text.find("\\", start)
    parts.append(text[start:])
    return "".join(parts)


def read_block(block: bytes) -> list[tuple[str, str]]:
    """Return names and values of a header block as ``Head.block`` and ``Message.headers`` hold it."""
    lines = block.decode().split("\n")
    del lines[-1]
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((unescape(name, VERSION_1_2), unescape(value, VERSION_1_2)))
    return headers


def block_for(block: bytes, version: int) -> bytes:
    """Return a header block, written with the escapes of 1.2, as a peer of ``version`` reads it."""
    if version == VERSION_1_2 or b"\\" not in block:
        return block
    lines = [_escape_name(name, version) + b":" + escape(value, version) + b"\n" for name, value in read_block(block)]
    return b"".join(lines)


_UNESCAPED: Final = {"n": "\n", "c": ":", "\\": "\\", "r": "\r"}


def _escape_1_1(text: str) -> str:
    # The backslash first: it must not double those that the others bring.
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")


def _escape_1_2(text: str) -> str:
    return _escape_1_1(text).replace("\r", "\\r")


def _escape_name(name: str, version: int) -> bytes:
    """1.0 would take the first colon of a name for its end."""
    return escape(name.replace(":", " ") if version == VERSION_1_0 else name, version)
