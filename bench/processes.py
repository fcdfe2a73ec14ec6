"""The programs of a measurement: the gateway, the yardstick, the load generator."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

ROOT: Final = Path(__file__).resolve().parents[1]
START_LIMIT_S: Final = 60.0

# Protocols, by the load generator's names.
STOMP: Final = "stomp"
AMQP: Final = "amqp10"


class Broken(Exception):
    """A measurement is impossible; the text says why."""


def build_loadgen(cache: Path) -> Path:
    """Build the load generator outside the tree, unless it is built; return the program."""
    if shutil.which("cargo") is None:
        raise Broken(
            "the load generator is a Rust crate and cargo is not on the PATH; --loadgen FILE names a built one"
        )
    target = cache / "loadgen"
    command = ["cargo", "build", "--release", "--locked", "--offline", "--quiet"]
    command += ["--manifest-path", str(ROOT / "bench" / "loadgen" / "Cargo.toml"), "--target-dir", str(target)]
    subprocess.run(command, check=True)
    return target / "release" / "penstock-load"


class Server(ABC):
    """Something that speaks STOMP on ``port``, or AMQP 1.0 on ``amqp_port``, in the process ``pid``.

    addresses: by protocol, where they are not ports of this machine.  prefixes: of the names of queues there.
    login: name and passcode.
    """

    name = ""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.addresses: dict[str, str] = {}
        self.prefixes: dict[str, str] = {}
        self.login = ("", "")
        self.port = 0
        self.amqp_port = 0
        self.pid = 0
        self.start_ms = 0.0  # from the start of the process to the first accepted connection
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Start it; return once it accepts connections."""

    def attended(self) -> AbstractContextManager[None]:
        """Return what surrounds each measured run."""
        return nullcontext()

    def _launched(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=log
            )
        self._process = process
        self.pid = process.pid
        return process

    def _await_port(self, began: float) -> None:
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port or self.amqp_port), 1).close()
                self.start_ms = (time.monotonic() - began) * 1000
                return
            except OSError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() - began > START_LIMIT_S:
                    raise Broken(f"{self.name} does not accept connections; see {self.home / 'log'}") from None
                time.sleep(0.005)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise Broken(f"{self.name} did not stop on {number.name}") from None
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


class Gateway(Server):
    """``penstock run`` on a separate data directory.

    tree: its sources; it may be a copy of the project with compiled modules.
    The bytecode is kept beside the directories, as in an installation: only the very first start compiles.
    """

    name = "penstock"
    http_port = 0
    tree: ClassVar[Path] = ROOT

    def __init__(self, home: Path, options: tuple[str, ...] = ()) -> None:
        """options: further words for ``penstock run``."""
        super().__init__(home)
        self._options = options

    @classmethod
    def build(cls) -> str:
        """Return the measured build by its ``--version``: compiled or interpreted."""
        command = [sys.executable, "-P", "-m", "gateway", "--version"]
        environment = {**os.environ, "PYTHONPATH": str(cls.tree)}
        done = subprocess.run(command, cwd=cls.tree, env=environment, text=True, capture_output=True, check=True)
        return done.stdout.rsplit("(", 1)[-1].strip(" )\n")

    def start(self) -> None:
        command = [sys.executable, "-P", "-m", "gateway", "run", "--json", "--data", str(self.home / "data")]
        command += ["--stomp", "tcp://127.0.0.1:0", "--amqp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]
        command += self._options
        environment = {
            "PYTHONPATH": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.home.parent / "bytecode"),
        }
        began = time.monotonic()
        process = self._launched(command, environment)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            process.wait(START_LIMIT_S)
            raise Broken(f"the gateway ended before it listened; see {self.home / 'log'}")
        listeners = json.loads(line)["listeners"]
        self.port = urlsplit(listeners["stomp"]).port or 0
        self.amqp_port = urlsplit(listeners["amqp"]).port or 0
        self.http_port = urlsplit(listeners["http"]).port or 0
        assert self.port and self.amqp_port and self.http_port, f"no ports in {line!r}"
        self._await_port(began)


class Ceiling(Server):
    """The featureless prototype of the same shape: the yardstick of this machine at this moment."""

    name = "ceiling"

    def __init__(self, home: Path, directory: Path, protocol: str) -> None:
        super().__init__(home)
        self._is_amqp = protocol == AMQP
        self._directory = directory

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        if self._is_amqp:
            self.amqp_port = port
        else:
            self.port = port
        script, engine = ("aserver.py", "acore") if self._is_amqp else ("server.py", "core")
        self.home.mkdir(parents=True, exist_ok=True)
        environment = {"CEILING_LOG": str(self.home / "ceiling.log"), "PYTHONDONTWRITEBYTECODE": "1"}
        began = time.monotonic()
        self._launched([sys.executable, str(self._directory / script), engine, str(port), "sync"], environment)
        self._await_port(began)


class Beside(Server):
    """A broker that runs already, perhaps on another machine."""

    def __init__(self, spec: str, login: tuple[str, str]) -> None:
        """spec: NAME=URL[,URL], as ``--beside`` of bench.run.  Raises: Broken."""
        super().__init__(Path())
        self.name, _, urls = spec.partition("=")
        self.login = login
        for url in urls.split(","):
            parts = urlsplit(url)
            if not self.name or parts.scheme not in ("stomp", "amqp") or not parts.hostname or not parts.port:
                raise Broken(f"--beside {spec}: not NAME=stomp://HOST:PORT/PREFIX,amqp://HOST:PORT/PREFIX")
            protocol = STOMP if parts.scheme == "stomp" else AMQP
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            self.addresses[protocol] = f"{host}:{parts.port}"
            self.prefixes[protocol] = parts.path[1:]

    def start(self) -> None:
        for address in self.addresses.values():
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), 5).close()
            except OSError as error:
                raise Broken(f"{self.name} at {address}: {error}") from None


def load(
    loadgen: Path, server: Server, destination: str, messages: int, arguments: list[str], protocol: str = STOMP
) -> dict[str, Any]:
    """Run the load generator once against ``server``; return its report."""
    address = server.addresses.get(protocol) or f"127.0.0.1:{server.amqp_port if protocol == AMQP else server.port}"
    command = [str(loadgen), "--proto", protocol, "--url", address]
    command += ["--dest", server.prefixes.get(protocol, "") + destination]
    command += ["--messages", str(messages), "--json", *arguments]
    if server.pid:
        command += ["--watch-pid", str(server.pid)]
    if server.login[0]:
        command += ["--login", server.login[0], "--passcode", server.login[1]]
    began = time.monotonic()
    done = subprocess.run(command, text=True, capture_output=True, timeout=1800, check=False)
    wall_s = time.monotonic() - began
    if not done.stdout.strip():
        raise Broken(f"the load generator failed: {done.stderr.strip()[:500]}")
    report: dict[str, Any] = json.loads(done.stdout)
    report["wall_s"] = round(wall_s, 3)
    # What a broker beside uses is not known, so nobody can say what others use meanwhile.
    others_s = report["machine_busy_s"] - report.get("watched_cpu_s", 0.0) - report["loadgen_cpu_s"]
    report["other_cores"] = round(others_s / wall_s, 2) if server.pid else 0.0
    if report["errors"]:
        raise Broken(f"{server.name}: {'; '.join(report['errors'])[:500]}")
    return report


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> dict[str, float]:
    """Return resident memory of a process now and at its peak, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return {
        "now": round(int(fields["VmRSS"].split()[0]) / 1024, 1),
        "peak": round(int(fields["VmHWM"].split()[0]) / 1024, 1),
    }
