"""Threads that a stop waits for, though not for ever."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.process.request_threads import RequestThreads

ROOT = Path(__file__).parents[4]
HANGS = """\
import asyncio, threading
from gateway.process.request_threads import RequestThreads, end_process
async def work():
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    return 7
threads = RequestThreads(0.01)
code = asyncio.run(threads.around(work()))
assert threads.are_left
print("out")
end_process(code)
"""


def test_work_that_ends_is_waited_for() -> None:
    threads = RequestThreads(60.0)
    done: list[str] = []

    async def work() -> int:
        asyncio.get_running_loop().run_in_executor(None, done.append, "read")
        return 5

    assert asyncio.run(threads.around(work())) == 5
    assert (done, threads.are_left) == (["read"], False)


def test_work_that_hangs_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    never = threading.Event()
    threads = RequestThreads(0.01)

    async def work() -> int:
        asyncio.get_running_loop().run_in_executor(None, never.wait)
        return 5

    with caplog.at_level(logging.WARNING, "penstock"):
        assert asyncio.run(threads.around(work())) == 5
    assert threads.are_left
    assert "a request still waits for files after 0.01 s" in caplog.text
    never.set()


def test_a_failed_start_is_no_other_failure() -> None:
    async def work() -> int:
        raise OSError("in use")

    with pytest.raises(OSError, match="in use"):
        asyncio.run(RequestThreads(60.0).around(work()))


def test_the_process_ends_with_its_code_although_a_thread_hangs() -> None:
    command = [sys.executable, "-c", HANGS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (7, b"out\n"), done.stderr
