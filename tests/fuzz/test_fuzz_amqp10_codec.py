"""The fuzzer, for so many runs that nobody waits; ``--long`` for more.  It begins with the vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.fuzzer import run_fuzzer
from tests.support.protocols.amqp_vectors import VECTORS, is_value

RUNS: Final = 10_000
RUNS_LONG: Final = 500_000


def test_fuzz_amqp10_codec(is_long: bool, tmp_path: Path) -> None:
    corpus: dict[str, bytes] = {}
    for vector in VECTORS:
        octets = bytes.fromhex(vector["hex"])
        is_sasl = octets[5:6] == b"\x01" and not is_value(vector)
        corpus[vector["id"]] = bytes((is_sasl, 6)) + octets
    run_fuzzer("fuzz_amqp10_codec", RUNS_LONG if is_long else RUNS, corpus, tmp_path)
