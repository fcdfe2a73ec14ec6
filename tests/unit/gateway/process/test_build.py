"""Which build is running: the tests pass both ways, so it must be certain which way they went."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.process.build import COMPILED, INTERPRETED, build

ROOT = Path(__file__).resolve().parents[4]
SETUP = runpy.run_path(str(ROOT / "setup.py"))
HOT_FILES = SETUP["hot_files"]()
NATIVE_FILES = sorted(
    str(file.relative_to(ROOT)) for room in ("engine", "protocols") for file in (ROOT / room).rglob("*.[ch]")
)
# What scripts/test --compiled says that it has built.
WANTED = os.environ.get("PENSTOCK_BUILD", INTERPRETED)


def test_this_is_the_build_that_was_asked_for() -> None:
    assert build() == WANTED


@pytest.mark.parametrize("path", HOT_FILES)
def test_a_hot_module_is_what_was_asked_for(path: str) -> None:
    assert (ROOT / path).is_file()
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    assert module.__file__ is not None
    assert module.__file__.endswith(".py") is (WANTED == INTERPRETED), module.__file__
    assert Path(module.__file__).is_relative_to(ROOT)


@pytest.mark.parametrize("name", SETUP["native_modules"]())
def test_the_compiled_build_uses_its_native_functions(name: str) -> None:
    if WANTED == COMPILED:
        try:
            native = importlib.import_module(name)
        except ImportError as error:
            if "processor" not in str(error):
                raise
            pytest.skip(str(error))
        clear = importlib.import_module(name.replace(".native_", "."))
        functions = {one: function for one, function in vars(native).items() if callable(function)}
        assert functions
        assert {one: vars(clear)[one] for one in functions} == functions


def set_up(project: Path, *arguments: str, **environment: str) -> str:
    """Run setup.py in a copy of the project that has nothing but the native functions; return what it prints."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", *NATIVE_FILES):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, project / name)
    command = [sys.executable, "setup.py", *arguments]
    environment = {**os.environ, **environment}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_inputs_of_the_native_functions_are_known(tmp_path: Path) -> None:
    assert sorted(set_up(tmp_path, "--native-files").split()) == NATIVE_FILES


@pytest.mark.interpreted
@pytest.mark.parametrize("compiled", ["0", "1"])
def test_a_source_distribution_has_the_c_files(tmp_path: Path, compiled: str) -> None:
    set_up(tmp_path, "--quiet", "sdist", PENSTOCK_COMPILED=compiled)
    (file,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.py", *NATIVE_FILES} <= names


@pytest.mark.interpreted
@pytest.mark.parametrize("compiled", ["0", "1"])
def test_without_a_compiler_no_earlier_native_function_stays(tmp_path: Path, compiled: str) -> None:
    ours, others = sysconfig.get_config_var("EXT_SUFFIX"), ".of-another-python.so"
    for suffix in (ours, others):
        for source in SETUP["native_modules"]().values():
            built = tmp_path / source.replace(".c", suffix)
            built.parent.mkdir(parents=True, exist_ok=True)
            built.touch()
    set_up(
        tmp_path, "--quiet", "editable_wheel", "--dist-dir", "dist", PENSTOCK_COMPILED=compiled, CC="no-such-compiler"
    )
    assert not list(tmp_path.rglob(f"*{ours}"))
    assert len(list(tmp_path.rglob(f"*{others}"))) == len(SETUP["native_modules"]())


def test_the_process_says_it_too() -> None:
    command = [sys.executable, "-m", "gateway"]
    version = subprocess.run([*command, "--version"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"({WANTED})" in version
    doctor = subprocess.run([*command, "doctor", "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    found = {finding["name"]: finding["found"] for finding in json.loads(doctor.stdout)["findings"]}
    assert found["build"] == WANTED


def test_what_every_message_passes_is_hot() -> None:
    assert {COMPILED, INTERPRETED} >= {WANTED}
    assert {"engine/broker.py", "engine/store/log/commit_log.py"} <= set(HOT_FILES)
    assert {"protocols/stomp/codec/decoder.py", "protocols/stomp/session/stomp_session.py"} <= set(HOT_FILES)
    assert {
        "engine/dispatch/dispatcher.py",
        "engine/backlog/lane.py",
        "protocols/amqp/v1_0/endpoints/session.py",
    } <= set(HOT_FILES)


@pytest.mark.parametrize("path", SETUP["native_modules"]().values())
def test_the_clear_form_of_a_native_function_is_hot(path: str) -> None:
    assert path.replace("native_", "").replace(".c", ".py") in HOT_FILES


def test_each_c_file_is_in_one_unit_of_about_the_same_size(tmp_path: Path) -> None:
    sources = [tmp_path / f"{number}.c" for number in range(100)]
    for number, source in enumerate(sources):
        source.write_text("x" * (number + 1))
    units = [Path(unit) for unit in SETUP["gather"]([str(source) for source in sources], tmp_path)]
    included = [re.findall('#include "(.+)"', unit.read_text()) for unit in units]
    found = [unit.parent / name for unit, names in zip(units, included, strict=True) for name in names]
    assert sorted(found) == sorted(sources)
    sizes = [sum(int(Path(name).stem) + 1 for name in names) for names in included]
    assert max(sizes) - min(sizes) <= 10


def test_each_shim_is_in_one_file_beside_none_of_the_same_last_name(tmp_path: Path) -> None:
    names = [path.removesuffix(".py").replace("/", ".") for path in HOT_FILES]
    shims = [SimpleNamespace(name=name, sources=[str(tmp_path / f"{name}.c")]) for name in names]
    files = SETUP["gather_shims"](shims, tmp_path)
    assert sorted(shim.name for file in files for shim in file) == sorted(names)
    for first, *others in files:
        (unit,) = first.sources
        included = re.findall('#include "(.+)"', Path(unit).read_text())
        assert included == [f"{shim.name}.c" for shim in (first, *others)]
        last_names = [name.removesuffix(".c").rpartition(".")[2] for name in included]
        assert len(set(last_names)) == len(last_names)
