"""Bodies that name their message and reveal damage, and the exception of all checkers."""

from __future__ import annotations

from crc32c import crc32c

from engine.values.message import AMQP_1_0, Message


class Violation(AssertionError):
    """A broken law of a simulation."""


def make_body(uid: int, size: int) -> bytes:
    """Return ``size`` octets, at least 24, that only message ``uid`` has."""
    seed = b"%d;%d;" % (uid, size)
    filler = b"%08x" % crc32c(seed)
    return (seed + filler * (size // 8 + 1))[: max(size, 24)]


def read_body(body: bytes) -> int:
    """Return the uid.  Raises: Violation if one octet differs from the sent one."""
    uid, _, rest = body.partition(b";")
    size, _, _ = rest.partition(b";")
    if not uid.isdigit() or not size.isdigit() or body != make_body(int(uid), int(size)):
        raise Violation(f"a body of {len(body)} octets is damaged, it begins with {body[:32]!r}")
    return int(uid)


def data_section(body: bytes) -> bytes:
    """Return ``body`` as the data section of an AMQP message."""
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


def uid_of(message: Message) -> int:
    """Return the uid of a message in either encoding.  Raises: Violation."""
    if message.encoding == AMQP_1_0:
        body = message.body[8:]
        if message.body != data_section(body):
            raise Violation(f"a data section of {len(body)} octets is damaged")
        return read_body(body)
    return read_body(message.body)
