"""What a C compiler builds: native functions, and the hot files by mypyc.  docs/how-to/compiled.md has more.

``PENSTOCK_COMPILED`` decides about the hot files: 1 compiles them or fails, 0 does not compile.  Without it a wheel is
compiled where there is a C compiler and pure where there is none, and nothing else is compiled.  The native functions
are in each compiled build, and in an editable installation where there is a C compiler.  All else is in pyproject.toml.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Command, Extension

ROOT = Path(__file__).resolve().parent

MYPY = "mypy>=1.19,<3"
UNITS = 8  # of the C compiler: enough to share among processors, few enough to read the headers rarely

# The files that a message passes are one compile group, because a call or an attribute that crosses between compiled
# and interpreted code costs more than either.  These rooms are compiled except for the named files: no message passes
# those, or mypyc cannot compile them (docs/how-to/compiled.md).
ROOMS_BUT = {
    "engine": "assembly broker_options inspection",
    "engine/values": "broker_stats destination errors options sender_ids wildcard xid",
    "engine/ports": "",
    "engine/backlog": "",
    "engine/consumers": "permissions user_quota",
    "engine/sources": "composite identified registry",
    "engine/sources/topics": """
        durable_subscriptions subscription_cursors subscription_queues topic_publication topic_subscriptions
    """,
    "engine/dispatch": "disk_scan selector_index",
    "engine/limits": "disk_watch gate_words max_consumers pending_memory",
    "engine/fate": "dead_letter_move dead_letters relocation",
    "engine/features": """
        advisories advisory_state advisory_topics pause purge queue_run retry slow_consumers virtual_topics why
    """,
    "protocols": "broker_headers consumer_defaults detect errors map_message",
    "protocols/session": "",
    "protocols/stomp/codec": "frame_limits versions",
    "protocols/stomp/mapping": """
        connect_options destination_header dialects error_frame nack_options reply_to schedule_headers sender_ids
        subscribe_options transformations
    """,
    "protocols/stomp/session": "handshake settings subscribe_command",
    "protocols/amqp/v1_0/wire/frames": "frame_size layout",
    "protocols/amqp/v1_0/wire/messages": "",
    "protocols/amqp/v1_0/mapping": """
        addresses amqp_form contents jms_ids jms_types map_body message_keys outgoing_message property_types
        selector_properties sender_ids stomp_content stomp_form stomp_headers subscribe_options
    """,
    "protocols/amqp/v1_0/endpoints": "attach attach_fields channels handshake settings states",
    "protocols/amqp/v1_0/endpoints/links": "",
    "protocols/openwire/wire": "commands identities layouts messages property_map",
    "protocols/openwire/mapping": """
        contents destinations exceptions openwire_form outgoing_message selector_properties sender_ids stomp_content
        stomp_form
    """,
    "protocols/openwire/connection": "introduction negotiation peers settings states",
    "protocols/openwire/session": "consumers requests temporaries",
}
# Of this room only the named files are compiled, because no message passes most of the others.
STORE = """
    context disk/disk_health disk/files file_store format/file_heads format/layout format/message_record
    format/record_encoder index/index_directory index/key_index log/checkpoint log/commit_log log/group_commit
    log/log_files log/log_port log/open_files log/sync_lag log/segment log/sync_jobs log/transaction_room
    queues/consume_queue_files queues/entry_span queues/page_read queues/queue_flush queues/subscription_release
    state/consume_queue state/consumer_records state/destination state/log_state state/progress state/settled_entries
"""
# Likewise of the gateway: what each read, write and turn passes.
GATEWAY = """
    connections/connection connections/peer_watch connections/session_socket connections/unread_output
    loop/engine_loop loop/few_a_turn loop/ticks process/system_syncs process/workers
"""
# Written in C.  Beside each is its clear form, the Python file without ``native_``, which serves where it is not built.
NATIVE = """
    engine/store/format/native_message_record protocols/stomp/codec/native_frame_octets
    protocols/amqp/v1_0/wire/frames/native_transfer_octets
"""
NATIVE_HEADER = "engine/values/native_arguments.h"


def hot_files() -> list[str]:
    """Return the files to compile, from the root."""
    hot = [f"engine/store/{name}.py" for name in STORE.split()]
    hot += [f"gateway/{name}.py" for name in GATEWAY.split()]
    for room, cold_names in ROOMS_BUT.items():
        names = {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"}
        cold = set(cold_names.split())
        if not cold <= names:
            raise SystemExit(f"setup.py: {room} has no {', '.join(sorted(cold - names))}; take it from the list")
        hot += [f"{room}/{name}.py" for name in sorted(names - cold)]
    return hot


def native_modules() -> dict[str, str]:
    """Return the C files to compile, from the root, by their modules."""
    return {path.replace("/", "."): f"{path}.c" for path in NATIVE.split()}


def remove_native_modules() -> None:
    """Remove what an earlier editable installation built: where nothing takes its place, it would stay and be wrong."""
    for path in NATIVE.split():
        (ROOT / f"{path}{sysconfig.get_config_var('EXT_SUFFIX')}").unlink(missing_ok=True)


def missing_tools() -> list[str]:
    """Return what the compiled build needs and this machine lacks, for people to read."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    header = Path(sysconfig.get_path("include")) / "Python.h"
    missing = []
    if shutil.which(compiler) is None:
        missing.append(f"a C compiler (looked for {compiler}; the variable CC names another)")
    if not header.is_file():
        missing.append(f"Python's headers (looked for {header})")
    return missing


def is_compiled(commands: list[str]) -> bool:
    """Return whether these commands of setuptools make, or prepare, a compiled build."""
    wanted = os.environ.get("PENSTOCK_COMPILED", "")
    if wanted:
        return wanted == "1"
    # pip asks by "egg_info" for the build's requirements.
    if not {"egg_info", "bdist_wheel"} & set(commands):
        return False
    missing = missing_tools()
    if missing and "bdist_wheel" in commands:
        print(f"This wheel is not compiled: it would need {' and '.join(missing)}", file=sys.stderr)
    return not missing


def gather(sources: list[str], directory: Path) -> list[str]:
    """Write the units of the C compiler, each including its share of ``sources``; return their paths.

    mypyc writes a C file for each module.  Compiled alone, each would spend 0.1 s on the headers of all.
    """
    sizes = [0] * UNITS
    shares: list[list[str]] = [[] for _ in range(UNITS)]
    for source in sorted(sources, key=lambda one: (-os.path.getsize(one), one)):
        least = sizes.index(min(sizes))
        sizes[least] += os.path.getsize(source)
        shares[least].append(source)
    units = []
    for number, share in enumerate(shares):
        unit = directory / f"penstock_unit_{number}.c"
        text = "".join(f'#include "{os.path.relpath(source, unit.parent)}"\n' for source in sorted(share))
        unit.write_text(text)
        units.append(str(unit))
    return units


def gather_shims(shims: list[Extension], directory: Path) -> list[list[Extension]]:
    """Let the first one of each returned list have the code of all its shims: the others need only a copy of its file.

    A shim is the file that Python finds for a module: a function that asks the library for it.  To compile and to link
    each of them took 0.1 s.
    """
    # Python calls a function with the module's last name.  Modules that share it come into different files.
    ordered = sorted(shims, key=lambda shim: shim.name.rpartition(".")[2])
    files = [ordered[number::UNITS] for number in range(min(UNITS, len(ordered)))]
    for number, file in enumerate(files):
        unit = directory / f"penstock_shims_{number}.c"
        text = ""
        for place, shim in enumerate(file):
            # Each also defines this one, which only another compiler asks for.
            text += f"#undef PyInit___init__\n#define PyInit___init__ unused_{place}\n"
            text += f'#include "{os.path.relpath(shim.sources[0], directory)}"\n'
        unit.write_text(text)
        file[0].sources = [str(unit)]
    return files


def parallel_build_ext() -> type[Command]:
    """Return setuptools' ``build_ext``, which also compiles the library in parallel, and its shims together."""
    from setuptools.command.build_ext import build_ext

    class ParallelBuildExt(build_ext):
        def finalize_options(self) -> None:
            super().finalize_options()
            self.parallel = self.parallel or os.cpu_count() or 1

        def build_extensions(self) -> None:
            natives = [one for one in self.extensions if one.name in native_modules()]
            library, *shims = [one for one in self.extensions if one not in natives]
            with ThreadPoolExecutor(self.parallel) as pool:
                for objects in pool.map(lambda unit: self.compile_unit(library, unit), library.sources):
                    library.extra_objects += objects
            library.sources = []
            files = gather_shims(shims, Path("build"))
            self.extensions = [library, *natives, *(first for first, *_ in files)]
            super().build_extensions()
            self.extensions = [library, *natives, *shims]
            for first, *others in files:
                for other in others:
                    target = Path(self.get_ext_fullpath(other.name))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(self.get_ext_fullpath(first.name), target)

        def compile_unit(self, library: Extension, unit: str) -> list[str]:
            return self.compiler.compile(
                [unit],
                output_dir=self.build_temp,
                include_dirs=library.include_dirs,
                extra_postargs=library.extra_compile_args,
                depends=library.depends,
            )

    return ParallelBuildExt


def main() -> None:
    from setuptools import Extension, setup

    is_editable = "editable_wheel" in sys.argv
    natives = [
        Extension(name, [source], depends=[NATIVE_HEADER], extra_compile_args=["-O2"], optional=is_editable)
        for name, source in native_modules().items()
    ]
    if is_editable:
        remove_native_modules()
    if is_editable or "sdist" in sys.argv:
        setup(ext_modules=natives)  # a source distribution has the files that these name
        return
    if not is_compiled(sys.argv):
        setup()
        return
    try:
        from mypyc.build import mypycify
    except ImportError:
        # pip asks for the build's requirements before it installs them: mypyc, and the packages whose types it reads.
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        setup(setup_requires=[MYPY, *project["dependencies"]])
        return
    if not {"bdist_wheel", "build_ext"} & set(sys.argv):
        setup()  # metadata needs no compiler
        return
    level = os.environ.get("PENSTOCK_OPTIMIZE", "1")  # docs/decisions/0099
    library, *shims = mypycify(hot_files(), group_name="penstock", opt_level=level, debug_level="0", multi_file=True)
    library.sources = gather(library.sources, Path("build"))
    # Modules call each other directly, and not as another library's functions; only the shims look into the library,
    # by a capsule.  docs/decisions/0056
    # In files this large gcc spends minutes on the analysis for the warning.
    library.extra_compile_args += ["-fvisibility=hidden", "-Wno-misleading-indentation"]
    setup(ext_modules=[library, *natives, *shims], cmdclass={"build_ext": parallel_build_ext()})


if __name__ == "__main__":
    if sys.argv[1:] == ["--hot-files"]:
        print(*hot_files(), sep="\n")
    elif sys.argv[1:] == ["--native-files"]:
        print(NATIVE_HEADER, *native_modules().values(), sep="\n")
    elif sys.argv[1:] == ["--missing-tools"]:
        print(*missing_tools(), sep="\n")
    else:
        main()
