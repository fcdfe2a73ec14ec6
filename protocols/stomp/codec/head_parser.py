"""Whole heads: octets to command and headers, by the rules of each version."""

from __future__ import annotations

import re
from typing import Final

from protocols.broker_headers import BESIDE_NAMES
from protocols.errors import FrameError, FrameTooLarge
from protocols.stomp.codec.escapes import escape, escape_1_2, unescape, unescape_known
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frames import ACK, COMMANDS, CONNECTED, CONTROL_HEADERS, NACK, NAMES, SEND, VERSIONLESS, Head
from protocols.stomp.codec.versions import VERSION_1_0

LENGTH_DIGITS: Final = 15  # digits of a content-length that are read
NUL_IN_HEAD: Final = "a NUL comes before the empty line that ends the headers"

_CREDENTIALS: Final = frozenset(("login", "passcode"))
_CLIENT_COMMANDS: Final = b", ".join(name for name, command in COMMANDS.items() if command < CONNECTED).decode()
_WORD: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_-]{0,31}")
_BLANK_NAME: Final = re.compile("[ \\t]:|\\n[ \\t]")  # perhaps a name that a blank begins or ends
_HTTP: Final = re.compile(rb"[A-Z]+ [^ ]+ HTTP/|HTTP/")


class HeadParser:
    """Parses the heads of one connection.

    receipt, id: of the head parsed last, as ``Frame`` has them.  ack, nack: the heads of an ACK and of a NACK that
    have only these two headers.
    is_lenient: as in ActiveMQ, a line without a colon is a header without a value, a backslash that begins no escape is
    a plain backslash, and 1.0 has the escapes of 1.1.
    """

    __slots__ = ("version", "limits", "is_lenient", "receipt", "id", "ack", "nack", "parsed_bytes")

    def __init__(self, limits: FrameLimits, is_lenient: bool = False) -> None:
        self.version = VERSION_1_0
        self.limits = limits
        self.is_lenient = is_lenient
        self.receipt: bytes | None = None
        self.id: bytes | None = None
        self.ack = Head(ACK, {}, -1, b"")
        self.nack = Head(NACK, {}, -1, b"")
        self.parsed_bytes = 0

    def parse(self, octets: bytes) -> Head:
        """Return the parsed head; also set ``receipt`` and ``id``."""
        self.parsed_bytes += len(octets)
        limits = self.limits
        first_line, _, _ = octets.partition(b"\n")
        command = COMMANDS.get(first_line, 0)
        if command == 0:
            command = check_command(first_line, True, limits)
        if b"\0" in octets:
            raise FrameError(NUL_IN_HEAD)
        try:
            text = octets.decode()
        except UnicodeDecodeError as error:
            number = octets.count(b"\n", 0, error.start)
            raise FrameError(f"header line {number} is not valid UTF-8") from None
        lines = text.split("\n")
        del lines[0]
        if len(lines) > limits.header_count:
            raise FrameTooLarge(too_many_headers(limits))
        if len(octets) > limits.header_line_bytes:
            self._check_lines(octets)
        version = VERSION_1_0 if command in VERSIONLESS else self.version
        is_lenient = self.is_lenient

        headers: dict[str, str] = {}
        kept: list[str] = []
        if "\\" not in text and "\r" not in text and _has_nothing_to_trim(text, version):
            # Most heads: no escape, no CR, nothing to trim; the lines are as in 1.2, except perhaps for a colon.
            has_colons = text.count(":") > len(lines)
            for line in lines:
                name, colon, value = line.partition(":")
                if not name or not colon:
                    if not is_lenient or colon:
                        raise FrameError(_bad_line(lines, line))
                    line += ":"
                if name not in headers:
                    headers[name] = value
                    if name not in CONTROL_HEADERS:
                        if has_colons and ":" in value:
                            line = name + ":" + value.replace(":", "\\c")
                        kept.append(line)
            receipt = headers.pop("receipt", None)
        else:
            receipt = self._parse_lines(command, lines, version, headers, kept)

        digits = headers.pop("content-length", None)
        length = -1 if digits is None else self._parse_length(digits, command)
        self.receipt = None if receipt is None else receipt.encode()
        self.id = None
        if command == SEND:
            kept.append("")
            return Head(SEND, headers, length, "\n".join(kept).encode())
        if command in (ACK, NACK) and len(headers) == 1 and "id" in headers:
            self.id = headers["id"].encode()
            return self.ack if command == ACK else self.nack
        return Head(command, headers, length, b"")

    def _parse_lines(
        self, command: int, lines: list[str], version: int, headers: dict[str, str], kept: list[str]
    ) -> str | None:
        """Add all lines to ``headers`` and ``kept``; return the receipt, as it was on the wire."""
        is_lenient = self.is_lenient
        receipt: str | None = None
        # 1.0 trims values, but not the passwords of clients that ask for a later version.
        is_trimmed = version == VERSION_1_0
        keeps_credentials = command in VERSIONLESS and any(line.startswith("accept-version:") for line in lines)
        for line in lines:
            whole = line.removesuffix("\r")
            name, colon, value = whole.partition(":")
            if not name or (not colon and not is_lenient):
                raise FrameError(_bad_line(lines, line))
            if is_trimmed and not (keeps_credentials and name in _CREDENTIALS):
                value = value.strip(" \t")
            raw = value
            if "\\" in whole:
                if not is_lenient:
                    name = unescape(name, version)
                    value = unescape(value, version)
                elif command not in VERSIONLESS:
                    name = unescape_known(name, version)
                    value = unescape_known(value, version)
                    if version > VERSION_1_0:  # echoed values must be valid for all readers
                        raw = escape(value, version).decode()
            if name == "receipt":
                receipt = raw if receipt is None else receipt
            elif name not in headers:
                headers[name] = value
                if name.strip(BESIDE_NAMES) not in CONTROL_HEADERS:
                    kept.append(escape_1_2(name) + ":" + escape_1_2(value))
        return receipt

    def _parse_length(self, digits: str, command: int) -> int:
        digits = digits.strip(" \t")  # some clients pad it, in every version
        if not digits.isascii() or not digits.isdigit():
            raise FrameError(f"content-length is {digits[:20]!r}, which is not a decimal number")
        # An endless number is not converted whole.
        length = int(digits) if len(digits.lstrip("0")) <= LENGTH_DIGITS else 10**LENGTH_DIGITS
        if length > self.limits.body_bytes:
            name = NAMES[command].decode()
            raise FrameTooLarge(
                f"content-length of {name} is {digits[: LENGTH_DIGITS + 1]}, the limit is {self.limits.body_bytes}"
            )
        return length

    def _check_lines(self, octets: bytes) -> None:
        limit = self.limits.header_line_bytes
        for number, line in enumerate(octets.split(b"\n")):
            if number > 0 and len(line.removesuffix(b"\r")) > limit:
                raise FrameTooLarge(line_too_long(number, self.limits))


def _has_nothing_to_trim(text: str, version: int) -> bool:
    """Say whether no value (1.0) and no name has a blank at its ends."""
    if " " not in text and "\t" not in text:
        return True
    return version > VERSION_1_0 and not _BLANK_NAME.search(text)


def check_command(line: bytes, is_whole: bool, limits: FrameLimits) -> int:
    """Return the number of a whole command line, 0 for the beginning of one that may still become valid."""
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
    if b"\0" in line[: limits.command_bytes]:
        raise FrameError(NUL_IN_HEAD)
    if len(line) > limits.command_bytes:
        raise FrameTooLarge(f"the command line is longer than {limits.command_bytes} octets")
    if not is_whole:
        return 0
    if _HTTP.match(line):
        raise FrameError("this looks like HTTP; this port speaks STOMP")
    seen = f"unknown command '{line.decode()}'" if _WORD.fullmatch(line) else f"a command line of {len(line)} octets"
    raise FrameError(f"{seen}; allowed are {_CLIENT_COMMANDS}, in capitals")


def too_many_headers(limits: FrameLimits) -> str:
    return f"more than {limits.header_count} headers"


def line_too_long(number: int, limits: FrameLimits) -> str:
    return f"header line {number} is longer than {limits.header_line_bytes} octets"


def _bad_line(lines: list[str], line: str) -> str:
    """Return the error of a line without showing it, because it may hold part of a password."""
    fault = "has an empty name" if line.startswith(":") else "has no colon"
    return f"header line {lines.index(line) + 1} {fault}; allowed is name:value"
