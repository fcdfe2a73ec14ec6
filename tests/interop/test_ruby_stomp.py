"""The Ruby gem ``stomp`` against the real process: workers that are killed and started again."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.support.process.gateway_process import GatewayProcess

SCRIPTS: Final = Path(__file__).with_name("ruby")
LIMIT_S: Final = 60.0
VERSIONS: Final = ("1.0", "1.1", "1.2")


class Worker:
    """``worker.rb`` in a process of its own; what it prints can be waited for."""

    def __init__(self, command: list[str], gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.got: list[int] = []
        self.redelivered: set[int] = set()
        self.acknowledged: list[int] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self) -> str | None:
        """Return the next line, None at the end."""
        try:
            line = self._lines.get(timeout=LIMIT_S)
        except queue.Empty:
            seen = {name: self._gateway.get_json(f"/api/{name}") for name in ("consumers", "connections", "overview")}
            raise AssertionError(
                f"the Ruby worker was silent for {LIMIT_S:.0f} s after {self.got[-3:]}: {seen}"
            ) from None
        match line.split() if line is not None else []:
            case []:
                pass
            case ["got", number, redelivered]:
                self.got.append(int(number))
                if redelivered == "true":
                    self.redelivered.add(int(number))
            case ["acknowledged", number]:
                self.acknowledged.append(int(number))
            case ["holding", _]:
                pass
            case _:
                raise AssertionError(f"the Ruby worker said: {line}\n{self._rest()}")
        return line

    def _rest(self) -> str:
        self.kill()
        return "\n".join(line for line in list(self._lines.queue) if line is not None)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Read lines until ``condition`` holds."""
        while not condition():
            assert self.line() is not None, f"the Ruby worker ended before: {what}; got {self.got[-3:]}"

    def kill(self) -> None:
        """Kill it with SIGKILL, then read what it had still printed."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def drain(self) -> None:
        """Take in what was printed before it was killed."""
        while self.line() is not None:
            pass


@pytest.fixture
def start_worker(ruby: str, shared_gateway: GatewayProcess) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(destination: str, version: str, prefetch: int, handled: int = -1) -> Worker:
        command = [ruby, str(SCRIPTS / "worker.rb"), shared_gateway.stomp_host, str(shared_gateway.stomp_port)]
        worker = Worker([*command, destination, version, str(prefetch), str(handled)], shared_gateway)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.kill()


def produce(ruby: str, gateway: GatewayProcess, destination: str, version: str, first: int, last: int) -> None:
    command = [ruby, str(SCRIPTS / "producer.rb"), gateway.stomp_host, str(gateway.stomp_port), destination, version]
    done = subprocess.run(
        [*command, str(first), str(last)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.stdout == f"sent {last - first + 1}\n", f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize("version", VERSIONS)
def test_worker_killed_at_prefetch_one_loses_nothing_and_repeats_only_what_it_held(
    version: str,
    ruby: str,
    shared_gateway: GatewayProcess,
    start_worker: Callable[..., Worker],
    unique: Callable[[str], str],
) -> None:
    destination = f"/queue/{unique('ruby')}"
    produce(ruby, shared_gateway, destination, version, 1, 60)
    first = start_worker(destination, version, prefetch=1, handled=20)
    first.until(lambda: len(first.got) == 21, "21 messages, the last of them held")
    produce(ruby, shared_gateway, destination, version, 61, 100)
    first.kill()
    first.drain()
    assert first.got == list(range(1, 22))
    assert first.acknowledged == list(range(1, 21))

    second = start_worker(destination, version, prefetch=1)
    second.until(lambda: 100 in second.acknowledged, "all 100 messages")
    assert second.got == list(range(21, 101)), "lost, repeated or out of order"
    assert second.redelivered == {21}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_worker_killed_with_a_full_window_repeats_only_that(
    version: str,
    ruby: str,
    shared_gateway: GatewayProcess,
    start_worker: Callable[..., Worker],
    unique: Callable[[str], str],
) -> None:
    destination = f"/queue/{unique('ruby.window')}"
    produce(ruby, shared_gateway, destination, version, 1, 100)
    first = start_worker(destination, version, prefetch=10, handled=30)
    first.until(lambda: len(first.got) == 31, "31 messages, the last of them held")
    first.kill()
    second = start_worker(destination, version, prefetch=10)
    second.until(lambda: 100 in second.acknowledged, "all 100 messages")
    assert second.got == list(range(31, 101)), "lost, repeated or out of order"
    assert 31 in second.redelivered
    assert second.redelivered <= set(range(31, 41)), "redelivered says more than a window"


def has_its_part(worker: Worker, count: int) -> bool:
    """Return whether the worker may be killed.  On a busy machine it goes far before that, perhaps to the end."""
    return len(worker.got) >= count or 300 in worker.acknowledged


@pytest.mark.parametrize("version", VERSIONS)
def test_workers_killed_at_any_moment_repeat_at_most_one_message_each(
    version: str,
    ruby: str,
    shared_gateway: GatewayProcess,
    start_worker: Callable[..., Worker],
    unique: Callable[[str], str],
) -> None:
    destination = f"/queue/{unique('ruby.churn')}"
    produce(ruby, shared_gateway, destination, version, 1, 300)
    seen: list[list[int]] = []
    acknowledged: set[int] = set()
    for count in (37, 61, 83, 300):
        worker = start_worker(destination, version, prefetch=1)
        worker.until(partial(has_its_part, worker, count), "its part")
        worker.kill()
        worker.drain()
        assert not acknowledged.intersection(worker.got), "an acknowledged message came back"
        acknowledged.update(worker.acknowledged)
        seen.append(worker.got)
        if worker.got[-1] == 300:
            break
    assert seen[-1][-1] == 300
    for before, after in itertools.pairwise(seen):
        assert after[0] in (before[-1], before[-1] + 1), f"{before[-1]} was followed by {after[0]}"
        assert after == list(range(after[0], after[-1] + 1))
