"""The fuzzer, for so many runs that nobody waits; ``--long`` for more.  tests/property runs without it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.fuzzer import run_fuzzer
from tests.support.protocols.amqp_vectors import VECTORS, is_value

RUNS: Final = 1_500
RUNS_LONG: Final = 200_000


def test_fuzz_amqp10_connection(is_long: bool, tmp_path: Path) -> None:
    corpus = {vector["id"]: b"\0" + bytes.fromhex(vector["hex"]) for vector in VECTORS if not is_value(vector)}
    run_fuzzer("fuzz_amqp10_connection", RUNS_LONG if is_long else RUNS, corpus, tmp_path)
