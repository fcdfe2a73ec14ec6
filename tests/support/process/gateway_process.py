"""A real gateway in a separate process, started, killed and restarted by tests."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from engine.store.disk.files import RealFiles
from engine.store.verify.store_check import verify
from gateway.settings.message_keys import MESSAGE_KEYS
from tests.support.process.forked import ForkedProcess

ROOT: Final = Path(__file__).resolve().parents[3]
# Long limits, for a busy machine: only a gateway that hangs should reach them.
START_LIMIT_S: Final = 120.0
STOP_LIMIT_S: Final = 120.0
HTTP_LIMIT_S: Final = 60.0


# One that ForkedProcess and subprocess.Popen have in common.
Process: TypeAlias = "ForkedProcess | subprocess.Popen[bytes]"


class GatewayFailed(AssertionError):
    """The process failed in a basic step; the text ends with its standard error."""


class GatewayProcess:
    """``penstock run`` on one data directory; each start takes free ports unless others are given."""

    def __init__(self, data: Path, configs: list[Path], log: Path) -> None:
        self.data = data
        self.configs = configs
        self.log = log
        self.is_damaged = False  # a test has damaged the store on purpose
        self.module = "gateway"
        self.is_forked = True  # False: started from the command line, which takes longer
        self.directory = ROOT  # in which it starts from the command line
        self.stomp_scheme = "tcp"
        self.stomp_options = ""  # options of the listener's URI
        self.stomp_host = ""
        self.stomp_port = 0
        self.http_scheme = "http"
        self.http_url = ""
        self.http_login = ("", "")  # login and password, if the gateway has users
        self.pid = 0
        self._process: Process | None = None

    def start(self, stomp_port: int = 0, http_port: int = 0) -> None:
        """Start and wait until every listener accepts."""
        assert self._process is None, "the gateway runs already"
        options = f"?{self.stomp_options}" if self.stomp_options else ""
        words = ["run", "--json", "--data", str(self.data)]
        words += ["--stomp", f"{self.stomp_scheme}://127.0.0.1:{stomp_port}{options}"]
        words += ["--http", f"{self.http_scheme}://127.0.0.1:{http_port}"]
        for config in self.configs:
            words += ["--config", str(config)]
        process = self._forked(words) if self.is_forked else self._from_command_line(words)
        self._process = process
        line = self._first_line(process)
        try:
            described = json.loads(line)
            stomp = urlsplit(described["listeners"]["stomp"])
            http = described["listeners"]["http"]
            pid = int(described["pid"])
        except (ValueError, KeyError, TypeError) as error:
            self.kill9()
            raise GatewayFailed(
                f"not the JSON line of `penstock run --json`: {line!r} ({error}){self._tail()}"
            ) from error
        assert stomp.hostname is not None and stomp.port is not None, f"no host and port in {line!r}"
        assert pid == process.pid, f"the gateway says pid {pid}, it is {process.pid}"
        self.stomp_host, self.stomp_port, self.http_url, self.pid = stomp.hostname, stomp.port, http, pid

    def _forked(self, words: list[str]) -> ForkedProcess:
        return ForkedProcess(self.module, words, _environment(), self.log)

    def _from_command_line(self, words: list[str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", self.module, *words]
        environment = {**_environment(), "PYTHONPATH": str(ROOT)}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def _first_line(self, process: Process) -> bytes:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        deadline = time.monotonic() + START_LIMIT_S
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            readable, _, _ = select.select([descriptor], [], [], max(0.0, left))
            octets = os.read(descriptor, 65536) if readable else b""
            if not octets:
                # Its standard output has ended, so it will end, too; or the time is up.
                what = f"ended with exit status {process.wait(STOP_LIMIT_S)}" if readable else "was silent"
                self.kill9()
                raise GatewayFailed(f"the gateway {what} instead of saying where it listens{self._tail()}")
            line += octets
        return line

    def _tail(self) -> str:
        return "; it wrote:\n" + self.log.read_text(errors="replace")[-4000:]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill9(self) -> None:
        """Kill it as ``kill -9`` does, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def terminate(self, is_patient: bool = False) -> int:
        """Ask it to stop; return its exit status.

        is_patient: it waits for what consumers hold; otherwise a second signal spares the test that wait.
        """
        if not is_patient:
            self.send_signal(signal.SIGINT)
        return self._end(signal.SIGTERM)

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the gateway is not running"
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end after a signal; return its exit status."""
        return self._end(None)

    def _end(self, number: signal.Signals | None) -> int:
        process = self._process
        assert process is not None, "the gateway is not running"
        if number is not None:
            process.send_signal(number)
        try:
            status = process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise GatewayFailed(
                f"{'a signal' if number is None else number.name} did not end the gateway within "
                f"{STOP_LIMIT_S:.0f} s{self._tail()}"
            ) from None
        finally:
            if process.stdout is not None:
                process.stdout.close()
            self._process = None
        return status

    def stacks(self) -> str:
        """End a gateway that hangs; return what each of its threads was doing."""
        before = self.log.stat().st_size
        self._end(signal.SIGABRT)
        return self.log.read_bytes()[before:].decode(errors="replace")

    def restart(self, same_port: bool = False) -> None:
        """Start again on the same data; a running gateway is stopped in order first."""
        ports = (self.stomp_port, urlsplit(self.http_url).port or 0) if same_port else (0, 0)
        if self._process is not None:
            self.terminate()
        self.start(*ports)

    def dispose(self) -> None:
        """End it at the end of a test, in any state."""
        if self._process is not None:
            self.kill9()

    def check_store(self) -> None:
        """Fail if the store that it leaves behind is not sound."""
        if not self.is_damaged and (self.data / "store.json").exists():
            findings = verify(RealFiles(), str(self.data), MESSAGE_KEYS).findings
            assert findings == [], "the store is not sound: " + "; ".join(map(str, findings[:5]))

    def get(self, path: str, posted: dict[str, Any] | None = None) -> tuple[int, str]:
        """Return status and text of an HTTP GET, or of a POST of the JSON object ``posted``."""
        request = urllib.request.Request(self.http_url + path, None if posted is None else json.dumps(posted).encode())
        if self.http_login[0]:
            credentials = base64.b64encode(":".join(self.http_login).encode()).decode()
            request.add_header("Authorization", f"Basic {credentials}")
        try:
            with urllib.request.urlopen(request, timeout=HTTP_LIMIT_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def get_json(self, path: str) -> dict[str, Any]:
        status, text = self.get(path)
        assert status == 200, f"GET {path} answered {status}: {text[:500]}"
        return cast("dict[str, Any]", json.loads(text))


def _environment() -> dict[str, str]:
    """With it, SIGABRT makes the gateway write the stacks of its threads, which ``stacks`` asks for."""
    return {**os.environ, "PYTHONFAULTHANDLER": "1"}


class StartGateway(Protocol):
    """Start one more gateway.

    config: the text of its file; more: texts of further files, in any format.  module: the one to run.
    """

    def __call__(
        self, config: str = "", data: Path | None = None, module: str = "gateway", more: Sequence[str] = ()
    ) -> GatewayProcess: ...
