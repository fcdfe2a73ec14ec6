"""The fuzzer, for so many runs that nobody waits; ``--long`` for more."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.fuzzer import run_fuzzer

RUNS: Final = 10_000
RUNS_LONG: Final = 500_000
DICTIONARY: Final = Path(__file__).with_name("stomp.dict")

# Where a fuzzer needs luck to get: whole frames, each way through the decoder.
SEEDS: Final = [
    b"\2\0\0SEND\ndestination:/queue/a\ncontent-length:2\nreceipt:1\n\nh\0\0\n",
    b"\2\0\5" + b"SEND\na:b\nreceipt:1\n\nx\0" * 3,
    b"\2\1\0" + b"SEND\r\na:b\r\nreceipt:1\r\n\r\nx\0\r\n" * 3,
    b"\2\1\1ACK\nid:1\n\n\0NACK\nid:c-2\nreceipt:3\n\n\0ACK\nid:1\ntransaction:t\n\n\0",
    b"\0\0\0CONNECT\nlogin: a\npasscode: b\n\n\0SUBSCRIBE\ndestination:/queue/a\n\n\0",
    b"\1\0\3SEND\na\\cb:x\\n\\\\\n\n\0MESSAGE\ncontent-length:1\n\n\0\0ERROR\n\nx\0",
]


def test_fuzz_stomp_codec(is_long: bool, tmp_path: Path) -> None:
    corpus = {str(number): seed for number, seed in enumerate(SEEDS)}
    run_fuzzer("fuzz_stomp_codec", RUNS_LONG if is_long else RUNS, corpus, tmp_path, f"-dict={DICTIONARY}")
