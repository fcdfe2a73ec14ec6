"""Coverage-guided fuzzing of an AMQP 1.0 connection with links of every kind, over a real engine.

Run ``python tests/fuzz/fuzz_amqp10_connection.py [libFuzzer options] [corpus]``.

The first octet is the size of the cuts, the rest comes behind open, begin and three attaches.  A finding is any
exception, octets kept beyond a frame, and anything that is left once the connection is gone: see amqp_stream.feed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

with atheris.instrument_imports(include=["protocols"]):
    from tests.support.protocols.amqp_stream import feed


def one_input(octets: bytes) -> None:
    if octets:
        feed(octets[1:], octets[0])


def main() -> None:
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
