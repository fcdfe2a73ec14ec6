"""scripts/run: interpreted at the first start, compiled from the next, with the real scripts and a small project."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process.waiting import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0
QUICKLY = {"PENSTOCK_OPTIMIZE": "0"}  # the C compiler's level, on which nothing here depends
SETUP = f"""
import runpy, sys
real = runpy.run_path({str(ROOT / "setup.py")!r})
main = real["main"]
files = {{"ROOMS_BUT": {{"engine": ""}}, "STORE": "", "GATEWAY": "", "NATIVE": ""}}
main.__globals__.update(files, ROOT=__import__("pathlib").Path(__file__).parent)
print(*real["missing_tools"](), sep="\\n") if sys.argv[1:] == ["--missing-tools"] else main()
"""
MAIN = """
import sys, engine.broker
print("engine from", engine.broker.__file__, engine.broker.answer())
"""


class Project:
    """A project of two modules, with the real scripts and an environment that is installed already."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.built = root / ".venv" / "built"
        for package in (
            "config",
            "engine",
            "protocols",
            "gateway",
            "penstock",
            "pyspark_penstock",
            "spark_bridge",
            "what_if",
        ):
            (root / package).mkdir(parents=True)
            (root / package / "__init__.py").write_text('"""A room."""\n')
        (root / "gateway" / "__main__.py").write_text(MAIN)
        self.write_broker("1")
        (root / "setup.py").write_text(SETUP)
        (root / "LICENSE").write_text("none\n")
        shutil.copy(ROOT / "README.md", root)
        shutil.copy(ROOT / "pyproject.toml", root)
        shutil.copytree(ROOT / "scripts", root / "scripts")
        # A build has the lowest priority.  Beside other tests it could take any time.
        compiled = root / "scripts" / "compiled.sh"
        text = compiled.read_text()
        assert "nice -n 19 " in text
        compiled.write_text(text.replace("nice -n 19 ", ""))
        self._make_environment()

    def write_broker(self, answer: str) -> None:
        (self.root / "engine" / "broker.py").write_text(f"def answer() -> int:\n    return {answer}\n")

    def _make_environment(self) -> None:
        binaries = self.root / ".venv" / "bin"
        binaries.mkdir(parents=True)
        for name, command in (
            ("python", f'exec "{sys.executable}" "$@"'),
            (
                "penstock",
                f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{self.root}" exec "{sys.executable}" -P -m gateway "$@"',
            ),
        ):
            (binaries / name).write_text(f"#!/bin/sh\n{command}\n")
            (binaries / name).chmod(0o755)
        state = ["bash", "-c", ". scripts/environment.sh && wanted_state spark,dev"]
        installed = subprocess.run(state, cwd=self.root, capture_output=True, text=True, check=True).stdout
        (self.root / ".venv" / "installed").write_text(installed)

    def start(self, *arguments: str, **environment: str) -> tuple[str, str]:
        """Return what the gateway printed and what the script said on stderr; it has no other environment."""
        process = subprocess.run(
            [self.root / "scripts" / "run", *arguments],
            env=QUICKLY | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout, process.stderr

    def await_build(self, before: list[str]) -> None:
        """Wait until a build has ended with another outcome than the one before, and the next one may begin."""
        wait_until(lambda: self.outcome() != before and not self.is_building(), "the build has ended", limit_s=LIMIT_S)

    def is_building(self) -> bool:
        """Say whether a build holds its lock.  To ask before one has begun could keep it from beginning."""
        built = os.open(self.built, os.O_RDONLY)
        try:
            fcntl.flock(built, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(built)
        return False

    def log(self) -> str:
        return (self.built / "log").read_text()

    def outcome(self) -> list[str]:
        return sorted(path.name for path in self.built.glob("*") if path.name not in ("log", "new"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    pytest.importorskip("mypyc")
    if not {"cc", "gcc", "clang"} & {name for name in ("cc", "gcc", "clang") if shutil.which(name)}:
        pytest.skip("no C compiler")
    return Project(tmp_path.resolve() / "a project")


def test_the_second_start_is_compiled_and_a_change_of_the_sources_starts_over(project: Project) -> None:
    out, said = project.start("run")
    assert "engine/broker.py 1" in out
    assert said.count("\n") == 1
    assert "starts interpreted and compiles itself" in said
    project.start("run")  # two at once: one of them builds
    project.await_build([])
    (first,) = project.outcome()
    subprocess.run([project.root / "scripts" / "build-compiled", "--for-run"], check=True)  # the second, but later
    assert not (project.built / "new").exists()
    out, said = project.start("run")
    assert f".venv/built/{first}/engine/broker.c" in out, project.log()
    assert out.rstrip().endswith(".so 1")
    assert said == ""
    assert "broker.py" in project.start("run", PENSTOCK_COMPILED="0")[0]
    project.write_broker("2")
    out, said = project.start("stat")
    assert "engine/broker.py 2" in out
    assert said == "", "only a start of the gateway builds"
    in_use = os.open(project.built / first, os.O_RDONLY)
    fcntl.flock(in_use, fcntl.LOCK_SH)
    project.start("run")
    project.await_build([first])
    os.close(in_use)
    assert first in project.outcome()
    assert project.start("stat")[0].rstrip().endswith(".so 2"), project.log()
    project.write_broker("3")
    before = project.outcome()
    project.start("run")
    project.await_build(before)
    assert len(project.outcome()) == 1, "builds that nobody uses are removed"


def test_sources_that_cannot_be_compiled_are_tried_once(project: Project) -> None:
    project.write_broker('"no number"')
    project.start("run")
    project.await_build([])
    assert project.outcome() == ["failed"]
    assert "Incompatible return value" in project.log()
    out, said = project.start("run")
    assert "engine/broker.py no number" in out
    assert "could not be compiled" in said
    assert not project.is_building()
    project.write_broker("3")
    assert "starts interpreted and compiles itself" in project.start("run")[1]
    project.await_build(["failed"])
    assert project.start("run")[0].rstrip().endswith(".so 3"), project.log()


def test_half_a_build_is_not_used_and_is_cleared_away(project: Project) -> None:
    (project.built / "new" / "tree" / "engine").mkdir(parents=True)
    (project.built / "new" / "tree" / "engine" / "broker.py").write_text("raise SystemExit(1)\n")
    assert "engine/broker.py 1" in project.start("run")[0]
    project.await_build([])
    assert project.start("run")[0].rstrip().endswith(".so 1"), project.log()
    assert not (project.built / "new").exists()


def test_without_a_compiler_or_with_a_read_only_environment_it_runs_interpreted(project: Project) -> None:
    out, said = project.start("run", CC="no-such-compiler")
    assert "engine/broker.py 1" in out
    assert "Penstock runs interpreted" in said
    assert "a C compiler (looked for no-such-compiler" in said
    assert not project.built.exists()
    project.built.write_text("no directory can be made here\n")
    out, said = project.start("run")
    assert "engine/broker.py 1" in out
    assert "no compiled build can be made" in said


@pytest.mark.parametrize(
    ("environment", "is_pure"),
    [({}, False), ({"PENSTOCK_COMPILED": "0"}, True), ({"CC": "no-such-compiler"}, True)],
    ids=["compiled", "the option", "no compiler"],
)
def test_pip_wheel_compiles_where_it_can(project: Project, environment: dict[str, str], is_pure: bool) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "-w", "wheels", "."]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK")}
    process = subprocess.run(
        pip, cwd=project.root, env=clean | QUICKLY | environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    (wheel,) = (project.root / "wheels").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl") is is_pure
    assert ("This wheel is not compiled" in process.stdout + process.stderr) is ("CC" in environment)
