"""Spark's own cluster manager in three containers: a master, a worker, and the machine of the driver and the gateway.

    directory, in the test's         in the containers
    store                            STORE      of driver and worker: the gateway's data directory
    lake                             LAKE       of driver and worker: the target of exports
    python/...                       PYTHON     of each its own: that of the project, or one without Penstock
                                     BARE       of the worker alone: the same as its PYTHON
                                     INSTALLED  of driver and worker: one with Penstock, as pip installs it

All else that a container writes is its own, and the worker does not see the project's directory.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

from tests.support.process.containers import MOUNTS, Container, Network, Program, View
from tests.support.process.gateway_process import ROOT
from tests.support.process.guardian import VARIABLE
from tests.support.process.scenarios import SHORT_LIVED_JVM

STORE: Final = f"{MOUNTS}/store"
LAKE: Final = f"{MOUNTS}/lake"
PYTHON: Final = f"{MOUNTS}/python"
BARE: Final = f"{MOUNTS}/bare"
INSTALLED: Final = f"{MOUNTS}/installed"
SOURCES: Final = f"{MOUNTS}/sources"
SETTINGS: Final = f"{MOUNTS}/settings"
MASTER_PORT: Final = 7077
STOMP_PORT: Final = 61613
HTTP_PORT: Final = 8161
UNREACHABLE: Final = "10.99.0.9"  # of the driver; the worker finds no way to it
WORKER_MEMORY: Final = "700m"
# All that a worker needs from elsewhere: not crc32c.  stomp is for writes.
PACKAGES: Final = ("pyarrow", "numpy", "pandas", "dateutil", "six", "pytz", "tzdata", "stomp", "docopt", "websocket")
DEFAULTS: Final = f"""\
spark.executor.memory 480m
spark.driver.memory 512m
spark.executor.extraJavaOptions {" ".join(SHORT_LIVED_JVM)}
spark.ui.enabled false
"""
EXECUTOR: Final = "CoarseGrainedExecutorBackend"


class SparkCluster:
    """java_home: None for the ``java`` on the PATH.  settings: of the gateway, which runs in the driver's container."""

    def __init__(self, directory: Path, java_home: Path | None, settings: str) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.lake = directory / "lake"
        self._java_home = java_home
        pyspark = importlib.util.find_spec("pyspark")
        assert pyspark is not None and pyspark.origin is not None
        self._spark_home = Path(pyspark.origin).parent
        self._make_files(settings)
        (directory / "containers").mkdir()
        self._network = Network(directory / "containers")
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _make_files(self, settings: str) -> None:
        for name in ("store", "lake", "settings", "python"):
            (self.directory / name).mkdir()
        (self.directory / "settings/spark-defaults.conf").write_text(DEFAULTS)
        (self.directory / "settings/gateway.yaml").write_text(settings)
        for name in ("bare", "installed"):
            make_python(self.directory / "python" / name)
        packages = site_packages(self.directory / "python/installed")
        (packages / "penstock.pth").write_text(f"{SOURCES}\n")

    def _start(self) -> None:
        self.master = self._network.add("master", self._view({}))
        self.worker = self._network.add(
            "worker",
            self._view({PYTHON: "python/bare", BARE: "python/bare", INSTALLED: "python/installed"}, has_sources=True),
        )
        self.driver = self._network.add("driver", self._view_of_driver())
        self.driver.network("address", "add", f"{UNREACHABLE}/32", "dev", "lo")
        self.url = f"spark://{self.master.address}:{MASTER_PORT}"
        self._daemons = {
            "master": self._daemon(self.master, "Master", "--port", str(MASTER_PORT), "--webui-port", "0"),
            "worker": self._daemon(
                self.worker, "Worker", "--cores", "2", "--memory", WORKER_MEMORY, "--webui-port", "0", self.url
            ),
        }
        self.gateway = self._gateway()
        self._daemons["master"].wait_for("Registering worker")
        self.gateway.wait_for('"pid"')

    def _view(self, places: Mapping[str, str], has_sources: bool = False) -> View:
        mounts = {place: self.directory / path for place, path in places.items()}
        mounts |= {STORE: self.store, LAKE: self.lake} if has_sources else {}
        mounts |= {SOURCES: ROOT} if has_sources else {}
        return View(mounts, hidden=[ROOT], kept=self._kept())

    def _view_of_driver(self) -> View:
        mounts = {STORE: self.store, LAKE: self.lake, PYTHON: Path(sys.prefix), SOURCES: ROOT}
        mounts |= {INSTALLED: self.directory / "python/installed", SETTINGS: self.directory / "settings"}
        return View(mounts, kept=[*self._kept(), ROOT], hosts={"driver": UNREACHABLE})

    def _kept(self) -> list[Path]:
        kept = [Path(sys.base_prefix), Path(sys.prefix), self._spark_home]
        return [*kept, self._java_home] if self._java_home is not None else kept

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of every program in the containers."""
        own = {name: os.environ[name] for name in (VARIABLE, "LANG") if name in os.environ}
        folders = [one for one in os.environ["PATH"].split(os.pathsep) if not Path(one).is_relative_to(sys.prefix)]
        own |= {"HOME": "/tmp", "PATH": os.pathsep.join(folders), "SPARK_HOME": str(self._spark_home)}
        if self._java_home is not None:
            own["JAVA_HOME"] = str(self._java_home)
        return own | more

    def _daemon(self, container: Container, kind: str, *words: str) -> Program:
        command = [str(self._spark_home / "bin/spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        environment = self.environment(
            SPARK_DAEMON_MEMORY="192m",
            SPARK_DAEMON_JAVA_OPTS=" ".join(SHORT_LIVED_JVM),
            SPARK_LOCAL_IP=container.address,
            SPARK_WORKER_DIR="/tmp/spark-worker",
        )
        return container.start(kind, [*command, "--host", container.address, *words], environment)

    def _gateway(self) -> Program:
        words = ["run", "--json", "--data", STORE, "--config", f"{SETTINGS}/gateway.yaml"]
        words += ["--stomp", f"tcp://0.0.0.0:{STOMP_PORT}", "--http", f"http://0.0.0.0:{HTTP_PORT}"]
        return self.driver.start("gateway", self._penstock(*words), self.driver_environment())

    def driver_environment(self, **more: str) -> dict[str, str]:
        """Return the variables of programs beside the gateway, which has the project's own Python."""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        options = {"SPARK_SUBMIT_OPTS": " ".join(SHORT_LIVED_JVM), "SPARK_CONF_DIR": SETTINGS}
        return self.environment(PYTHONPATH=path, **options, **more)

    def _penstock(self, *words: str) -> list[str]:
        return [f"{PYTHON}/bin/python", "-m", "gateway", *words]

    def start_export(self, what: str, *words: str, master: str = "", **environment: str) -> Program:
        """Start an export of everything to ``LAKE/what``."""
        command = self._penstock("export", "--master", master or self.url, "--data", STORE, "--destination", ">")
        command += ["--to", f"{LAKE}/{what}", "--json", *words]
        return self.driver.start(what, command, self.driver_environment(**environment))

    def run_job(self, what: str, program: str, *words: str, worker_python: str = PYTHON) -> Any:
        """Run a program of a user in the driver's container; return the JSON of its last line."""
        command = [f"{PYTHON}/bin/python", "-W", "ignore", "-c", program, *words]
        environment = self.driver_environment(PYSPARK_PYTHON=f"{worker_python}/bin/python")
        done = self.driver.run(what, command, environment)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    def executors(self) -> list[int]:
        """Return the processes of the worker's JVMs that run tasks."""
        return self.worker.processes(EXECUTOR)

    def started_executors(self) -> list[str]:
        """Return the directories of all executors that the worker has started for the last program."""
        programs = sorted(Path(f"/proc/{self.worker.pid}/root/tmp/spark-worker").glob("app-*"))
        return sorted(path.name for path in programs[-1].iterdir() if path.name.isdecimal())

    def stop(self) -> None:
        self._network.stop()


def result(done: CompletedProcess[str]) -> dict[str, Any]:
    """Return the result of an export that has succeeded."""
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def make_python(place: Path) -> None:
    """Make an environment with the packages that a worker needs and no others: those of this one, by links."""
    venv.EnvBuilder(symlinks=True).create(place)
    packages = site_packages(place)
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            continue
        origin = Path(found.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (packages / source.name).symlink_to(source)
        libraries = source.with_name(f"{name}.libs")  # of a wheel
        if libraries.is_dir():
            (packages / libraries.name).symlink_to(libraries)


def site_packages(place: Path) -> Path:
    (found,) = place.glob("lib/python3*/site-packages")
    return found
