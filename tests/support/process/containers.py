"""Containers of namespaces alone: each has its own network, process numbers, mounts, ``/tmp`` and host name.

A switch joins their networks.  It is a container, too, so nothing here has a name outside, and the kernel removes all
of it with the first process of each container: that dies with its test, and the guardian ends what a killed run leaves.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

START_LIMIT_S: Final = 240.0
RUN_LIMIT_S: Final = 600.0
TOOLS: Final = ("unshare", "nsenter", "ip", "mount")
SPACES: Final = ("--net", "--pid", "--mount", "--uts", "--ipc")
NETWORK: Final = "10.77.0"
ROUTER: Final = f"{NETWORK}.1"
BRIDGE: Final = "switch"
MOUNTS: Final = "/mnt"  # of every container's own
KEPT: Final = f"{MOUNTS}/.kept"
# What a container must have: a bridge and a pair of interfaces, in namespaces that end with a process.
TRIAL: Final = (
    "mount -t tmpfs none /mnt && ip link add name one type bridge && ip link add name two type veth peer name three"
)


def why_not() -> str:
    """Return why this machine allows no containers, "" if it does."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {' and '.join(missing)}"
    if os.geteuid():
        return "needs root, for namespaces"
    command = ["unshare", *SPACES, "--fork", "--kill-child", "sh", "-c", TRIAL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)
    return f"needs namespaces: {done.stderr.strip()}" if done.returncode else ""


@dataclass(frozen=True, slots=True)
class View:
    """What a container has of the machine's files.

    mounts: places below ``MOUNTS``, and which directory each is.  hidden: directories that are empty here, but for
    those ``kept`` inside them; ``/tmp`` always is.
    hosts: addresses by name that the container knows beside its own; they may change that.
    """

    mounts: Mapping[str, Path] = field(default_factory=dict)
    hidden: Sequence[Path] = ()
    kept: Sequence[Path] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)

    def script(self, name: str, hosts: Path) -> str:
        """Return what the container's first process does; it writes its number out here."""
        lines = ["set -e", "read -r pid rest </proc/self/stat", "mount --make-rprivate /", f"hostname {name}"]
        lines += [f"mount -t tmpfs none {MOUNTS}", f"mount --bind {shlex.quote(str(hosts))} /etc/hosts"]
        for place, source in self.mounts.items():
            lines += _bound(source, place)
        hidden = [path.resolve() for path in (Path("/tmp"), *self.hidden)]
        kept = [path.resolve() for path in self.kept if any(path.resolve().is_relative_to(one) for one in hidden)]
        for number, path in enumerate(kept):
            lines += _bound(path, f"{KEPT}/{number}")
        lines += [f"mount -t tmpfs none {shlex.quote(str(path))}" for path in _outermost(hidden)]
        for number, path in enumerate(kept):
            lines += [f"mkdir -p {shlex.quote(str(path))}", f"mount --move {KEPT}/{number} {shlex.quote(str(path))}"]
        lines += ["mount -t proc proc /proc", "echo $pid", "exec sleep infinity"]
        return "\n".join(lines)


def _bound(source: Path, place: str) -> list[str]:
    return [f"mkdir -p {place}", f"mount --bind {shlex.quote(str(source))} {place}"]


def _outermost(paths: Iterable[Path]) -> list[Path]:
    known = sorted(set(paths))
    return [path for path in known if not any(path != one and path.is_relative_to(one) for one in known)]


class Container:
    """name: also of the host.  pid: that of its first process, out here."""

    def __init__(self, name: str, address: str, view: View, directory: Path) -> None:
        self.name = name
        self.address = address
        self.directory = directory / name
        self.directory.mkdir()
        hosts = self.directory / "hosts"
        names = {"localhost": "127.0.0.1", name: address, **view.hosts}
        hosts.write_text("".join(f"{where}\t{one}\n" for one, where in names.items()))
        command = ["unshare", *SPACES, "--fork", "--kill-child", "sh", "-c", view.script(name, hosts)]
        self._log = self.directory / "log"
        self._programs: list[Program] = []
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.pid = self._first_process()

    def _first_process(self) -> int:
        output = self._process.stdout
        assert output is not None
        with output:
            readable, _, _ = select.select([output], [], [], START_LIMIT_S)
            line = output.readline().strip() if readable else ""
        if not line:
            self.stop()
            raise AssertionError(f"container {self.name} did not start: {self._log.read_text()}")
        return int(line)

    def _command(self, words: Sequence[str], spaces: Sequence[str] = SPACES) -> list[str]:
        return ["nsenter", "--target", str(self.pid), *spaces, "--", *words]

    def network(self, *words: str) -> None:
        """Run ``ip`` with the network of the container and everything else from here."""
        command = self._command(["ip", *words], ("--net",))
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)
        assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"

    def start(self, what: str, words: Sequence[str], environment: Mapping[str, str]) -> Program:
        """Start a program; it ends at the latest with the container.  what: names its output."""
        program = Program(self._command(words), environment, self.directory / what)
        self._programs.append(program)
        return program

    def run(
        self, what: str, words: Sequence[str], environment: Mapping[str, str], limit_s: float = RUN_LIMIT_S
    ) -> CompletedProcess[str]:
        """Run a program to its end."""
        return self.start(what, words, environment).result(limit_s)

    def processes(self, text: str) -> list[int]:
        """Return the processes, by their numbers out here, whose command line has a text."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(place / "ns/pid") == own and text.encode() in (place / "cmdline").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue  # it has ended
        return sorted(found)

    def stop(self) -> None:
        self._process.kill()  # and with it the first process, and so every other one
        self._process.wait()
        for program in self._programs:
            program.stop()


class Program:
    """One that runs in a container; its output goes to files, so that it never waits for a reader."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
        self.output = output.with_suffix(".out")
        self.errors = output.with_suffix(".err")
        with self.output.open("wb") as out, self.errors.open("wb") as err:
            self._process = subprocess.Popen(
                command, cwd="/", env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def told(self) -> str:
        """Return what it has written so far."""
        return self.output.read_text(errors="replace") + self.errors.read_text(errors="replace")

    def wait_for(self, text: str, limit_s: float = START_LIMIT_S) -> str:
        """Wait until it has written a text; return all that it has written."""
        deadline = time.monotonic() + limit_s
        while text not in (told := self.told()):
            assert self.is_running(), f"it ended without {text!r}: {told[-4000:]}"
            assert time.monotonic() < deadline, f"waited {limit_s:.0f} s in vain for {text!r}: {told[-4000:]}"
            time.sleep(0.02)
        return told

    def result(self, limit_s: float = RUN_LIMIT_S) -> CompletedProcess[str]:
        """Wait for its end."""
        try:
            status = self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {limit_s:.0f} s: {self.told()[-4000:]}") from None
        return CompletedProcess([], status, self.output.read_text(), self.errors.read_text(errors="replace"))

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Network:
    """Containers that reach each other through a switch, which forwards nothing to other networks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._containers: list[Container] = []
        self._switch = self._started("switch", ROUTER, View())
        try:
            self._switch.network("link", "add", "name", BRIDGE, "type", "bridge")
            self._switch.network("address", "add", f"{ROUTER}/24", "dev", BRIDGE)
            self._switch.network("link", "set", BRIDGE, "up")
            self._switch.network("route", "add", "blackhole", "default")
        except BaseException:
            self.stop()
            raise

    def _started(self, name: str, address: str, view: View) -> Container:
        container = Container(name, address, view, self._directory)
        self._containers.append(container)
        return container

    def add(self, name: str, view: View) -> Container:
        """Start a container.  What it sends to other networks than its own is lost, as behind a firewall."""
        number = len(self._containers)
        address = f"{NETWORK}.{number + 1}"
        container = self._started(name, address, view)
        port = f"port{number}"
        peer = ("peer", "name", "eth0", "netns", str(container.pid))
        self._switch.network("link", "add", "name", port, "type", "veth", *peer)
        self._switch.network("link", "set", port, "master", BRIDGE, "up")
        container.network("link", "set", "lo", "up")
        container.network("address", "add", f"{address}/24", "dev", "eth0")
        container.network("link", "set", "eth0", "up")
        container.network("route", "add", "default", "via", ROUTER)
        return container

    def stop(self) -> None:
        for container in self._containers:
            container.stop()
