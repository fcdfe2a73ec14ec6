"""The fuzzer, for so many runs that nobody waits; ``--long`` for more."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).with_name("fuzz_stomp_codec.py")
DICTIONARY = Path(__file__).with_name("stomp.dict")

# Where a fuzzer needs luck to get: whole frames, each way through the decoder.
SEEDS = [
    b"\2\0\0SEND\ndestination:/queue/a\ncontent-length:2\nreceipt:1\n\nh\0\0\n",
    b"\2\0\5" + b"SEND\na:b\nreceipt:1\n\nx\0" * 3,
    b"\2\1\0" + b"SEND\r\na:b\r\nreceipt:1\r\n\r\nx\0\r\n" * 3,
    b"\2\1\1ACK\nid:1\n\n\0NACK\nid:c-2\nreceipt:3\n\n\0ACK\nid:1\ntransaction:t\n\n\0",
    b"\0\0\0CONNECT\nlogin: a\npasscode: b\n\n\0SUBSCRIBE\ndestination:/queue/a\n\n\0",
    b"\1\0\3SEND\na\\cb:x\\n\\\\\n\n\0MESSAGE\ncontent-length:1\n\n\0\0ERROR\n\nx\0",
]


def test_fuzz_stomp_codec(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("needs atheris, which has no wheel for this platform")
    if subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True, check=False).returncode != 0:
        pytest.skip("atheris is here but cannot be imported")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(SEEDS):
        (corpus / str(number)).write_bytes(seed)
    runs = 500_000 if request.config.getoption("--long", default=False) else 20_000
    command = [sys.executable, str(TARGET), f"-runs={runs}", "-max_len=512", "-seed=1", "-rss_limit_mb=1024"]
    done = subprocess.run(
        [*command, f"-dict={DICTIONARY}", f"-artifact_prefix={tmp_path}/", str(corpus)],
        capture_output=True,
        text=True,
        check=False,
    )
    # The finding's octets stand at the end of libFuzzer's report, in base64.
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert f"Done {runs} runs" in done.stderr
