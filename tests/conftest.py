"""Fixtures and options that tests with real processes share."""

from __future__ import annotations

import gc
import itertools
import os
import random
import shutil
import signal
import subprocess
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from gateway.process.build import INTERPRETED, build
from tests.support import open_transports
from tests.support.long_run import LongRun
from tests.support.objects.s3_server import S3Server
from tests.support.process import guardian, raw_stomp
from tests.support.process.gateway_process import ROOT, GatewayProcess, StartGateway
from tests.support.process.scenarios import SHORT_LIVED_JVM
from tests.support.store.left_behind import HOMES, MARKER, check_directory, check_homes
from tests.support.suite_order import in_runs

if TYPE_CHECKING:
    from pyspark import SparkContext

# Spark's driver, its launcher, and Maven.
JVM_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "MAVEN_OPTS")
HAS_FAILED = pytest.StashKey[bool]()
UNIT_TESTS = ROOT / "tests" / "unit"
WAITING_FOLDERS = {"fault", "interop"}  # real processes
# With Python's own, a test that makes many objects waits for the collector a third of its time; these cost 100 MB.
GC_THRESHOLDS = (10_000, 10, 10)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long forms too: more kills, more seeds")
    parser.addoption("--seed", type=int, help="seed of tests that draw at random; they print the one they used")
    parser.addoption("--minutes", type=float, default=5.0, help="with --long: how long each simulation goes on")
    parser.addoption("--seeds", type=int, default=0, help="with --long: how many seeds each simulation takes instead")
    parser.addoption("--processes", type=int, default=1, help="with --long: how many of them share the seeds")


def pytest_configure(config: pytest.Config) -> None:
    guardian.watch()
    open_transports.watch()
    config.addinivalue_line("filterwarnings", "default::tests.support.open_transports.OpenTransport")
    # A shell without job control starts what it puts in the background with SIGINT ignored, and children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # No test asserts a time: a busy machine fails no property.
    settings.register_profile("penstock", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("penstock")
    for name in JVM_VARIABLES:
        os.environ.setdefault(name, " ".join(SHORT_LIVED_JVM))
    config.addinivalue_line("markers", f"{MARKER}(why): the store that the test leaves behind is not to be verified")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave to the interpreted run the unit tests of modules that the compiled build has not compiled.

    Files that are named on the command line are collected all the same.
    """
    if build() == INTERPRETED or UNIT_TESTS not in collection_path.parents:
        return None
    module = ROOT / collection_path.relative_to(UNIT_TESTS).with_name(collection_path.name.removeprefix("test_"))
    return True if module.is_file() and not any(module.parent.glob(f"{module.stem}.*.so")) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each of several processes begin with tests that wait, as ``tests.support.suite_order`` tells."""

    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)

    def waits(item: pytest.Item) -> bool:
        return item.path in slow or not WAITING_FOLDERS.isdisjoint(item.path.parts)

    def is_of_spark(item: pytest.Item) -> bool:
        names = item.fixturenames if isinstance(item, pytest.Function) else ()
        return item.get_closest_marker("spark") is not None or "spark" in names

    run_count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = in_runs(items, run_count, lambda item: item.path, waits, is_of_spark)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and let it leave out the collected tests.

    They all stay, and would be half of what it visits all the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember for fixtures whether their test has failed."""
    report = yield
    if report.failed:
        item.stash[HAS_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def _stores_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Verify every store that the test leaves behind, as ``tests.support.store.left_behind`` tells."""
    # Asked for here, so that it goes after this: pytest removes the directory of a test that has passed.
    directory = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if request.node.get_closest_marker(MARKER) is not None:
        HOMES.clear()
        return
    check_homes()
    if directory is not None:
        check_directory(directory)


@pytest.fixture(scope="session")
def is_long(pytestconfig: pytest.Config) -> bool:
    """Whether the long form of a test was asked for."""
    return bool(pytestconfig.getoption("--long"))


@pytest.fixture
def long_run(pytestconfig: pytest.Config, is_long: bool) -> LongRun:
    """More seeds than a default run takes; the test is skipped where the long form was not asked for."""
    if not is_long:
        pytest.skip("the long form takes more seeds")
    first = pytestconfig.getoption("--seed")
    return LongRun(
        random.SystemRandom().randrange(1 << 40) if first is None else int(first),
        int(pytestconfig.getoption("--seeds")),
        float(pytestconfig.getoption("--minutes")),
        int(pytestconfig.getoption("--processes")),
    )


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    for name in ("moto", "flask_cors", "obstore"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is missing: pip install -e '.[dev]'")
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def gateway_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateways")


@pytest.fixture
def start_gateway(request: pytest.FixtureRequest, gateway_directory: Path) -> Iterator[StartGateway]:
    """A function that starts gateways; they end with the test, and what they stored is deleted if it has passed."""
    homes: list[Path] = []
    yield from _starter(gateway_directory, homes)
    if not request.node.stash.get(HAS_FAILED, False):
        for home in homes:
            shutil.rmtree(home)


@pytest.fixture(scope="session")
def start_session_gateway(gateway_directory: Path) -> Iterator[StartGateway]:
    # From the command line, so that some tests are served by a gateway that started as for users.
    yield from _starter(gateway_directory, [], is_forked=False)


_numbers = itertools.count(1)


def _starter(directory: Path, homes: list[Path], is_forked: bool = True) -> Iterator[StartGateway]:
    """homes: where each gateway's files are, to be filled."""
    started: list[GatewayProcess] = []

    def start(
        config: str = "", data: Path | None = None, module: str = "gateway", more: Sequence[str] = ()
    ) -> GatewayProcess:
        home = directory / str(next(_numbers))
        home.mkdir()
        homes.append(home)
        files = []
        for number, text in enumerate([config, *more] if config else []):
            files.append(home / f"{number}.config")
            files[-1].write_text(text)
        process = GatewayProcess(data or home / "data", files, home / "log")
        process.module = module
        process.is_forked = is_forked
        started.append(process)
        process.start()
        return process

    yield start
    for process in started:
        process.dispose()
    for process in started:
        process.check_store()


@pytest.fixture
def gateway(start_gateway: StartGateway) -> GatewayProcess:
    """A gateway of the test's own, with the defaults."""
    return start_gateway()


@pytest.fixture(scope="session")
def shared_gateway(start_session_gateway: StartGateway) -> GatewayProcess:
    """One gateway for all tests that neither stop nor configure it; destinations keep them apart (``unique``).

    Its dead letter queue is everybody's: a stranger's message waits there from the start, whatever the order of tests.
    """
    gateway = start_session_gateway()
    with closing(raw_stomp.client(gateway)) as client:
        list(client.publish([("/queue/ActiveMQ.DLQ", b"a stranger's")]))
    return gateway


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """A function that makes a destination name of this test's own."""
    number = next(_numbers)
    return lambda name: f"test.{number}.{name}"


@cache
def _answers(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


@pytest.fixture(scope="session")
def ruby() -> str:
    """The Ruby interpreter with the gem ``stomp``."""
    if not _answers("ruby", "-e", 'require "stomp"'):
        pytest.skip("needs Ruby with the gem stomp (Debian: ruby-stomp)")
    return "ruby"


@pytest.fixture(scope="session")
def java() -> str:
    if not _answers("java", "-version"):
        pytest.skip("needs java on the PATH")
    return "java"


@pytest.fixture(scope="session")
def node() -> str:
    if not _answers("node", "--version"):
        pytest.skip("needs node on the PATH")
    return "node"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """One Spark for all tests in a process that need it."""
    pytest.importorskip("pyspark")
    from spark_bridge.spark.jvm import JavaNotFound, find_java_home, packaged_java
    from spark_bridge.spark.session import EXPORT, Program, start
    from what_if.sweep.on_spark import SIMULATION

    try:
        find_java_home(os.environ, packaged_java())
    except JavaNotFound as error:
        pytest.skip(str(error))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own
        # Of all commands in one zip: a worker that has imported a room from one would not look for it in another.
        program = Program("tests", {**EXPORT.modules, **SIMULATION.modules})
        context = start("local[2]", tmp_path_factory.mktemp("spark"), program=program)
    yield context
    context.stop()
