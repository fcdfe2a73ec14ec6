"""``penstock top`` in a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable

from tests.support.process.gateway_process import STOP_LIMIT_S, GatewayProcess
from tests.support.process.rest import RestClient
from tests.support.process.waiting import wait_until


def test_top_is_live_and_gives_the_terminal_back(
    shared_gateway: GatewayProcess, rest: RestClient, unique: Callable[[str], str]
) -> None:
    name = unique("topped")
    rest.send(name, "x")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gateway", "top", "--http", shared_gateway.http_url, "--search", name]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "140", "LINES": "30", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    os.set_blocking(ours, False)
    seen = bytearray()

    def shows(text: str) -> bool:
        try:
            seen.extend(os.read(ours, 65536))
        except (BlockingIOError, OSError):
            pass
        return text.encode() in seen

    try:
        wait_until(lambda: shows(f"queue://{name}"), "the destination")
        wait_until(lambda: shows("1 to 1 of 1"), "the last line")
        os.write(ours, b"s")
        wait_until(lambda: shows("In flight▼"), "the next column")
        rest.send(name, "y")
        rest.send(name, "z")
        wait_until(lambda: shows(f"queue://{name}"), "the new depth")
        os.write(ours, b"q")
        wait_until(lambda: shows("\x1b[?1049l"), "the screen as it was")
        assert process.wait(STOP_LIMIT_S) == 0
    finally:
        process.kill()
        _, complaint = process.communicate()
        os.close(ours)
    assert complaint == b""
