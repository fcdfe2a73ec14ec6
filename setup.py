"""The compiled build: with ``PENSTOCK_COMPILED=1`` in the environment mypyc compiles the hot files, else nothing is.

``scripts/build-compiled`` sets it; docs/how-to/compiled.md tells the rest.  All else is in pyproject.toml.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent

MYPY = "mypy>=1.19,<3"

# The files that a message passes are one compile group, because a call or an attribute that crosses between compiled
# and interpreted code costs more than either.  These rooms are compiled except for the named files: no message passes
# those, or mypyc cannot compile them (docs/how-to/compiled.md).
ROOMS_BUT = {
    "engine": "assembly inspection",
    "engine/values": """
        annotations broker_stats destination errors failed_attempts hand_over_times options refusal wildcard
    """,
    "engine/ports": "",
    "engine/backlog": "",
    "engine/consumers": "",
    "engine/sources": "composite registry",
    "engine/sources/replay": "replay_start",
    "engine/sources/topics": "durable_cursors topic_publication topic_subscriptions",
    "engine/dispatch": "disk_scan selector_index spilled_scan",
    "engine/limits": "disk_watch max_consumers permissions user_quota",
    "engine/fate": "dead_letters relocation",
    "engine/features": "advisories advisory_topics purge queue_run retry slow_consumers virtual_topics why",
    "protocols": "broker_headers consumer_defaults detect map_message",
    "protocols/stomp/codec": "frame_limits versions",
    "protocols/stomp/mapping": """
        connect_options destination_header dialects error_frame nack_options reply_to schedule_headers subscribe_options
        transformations
    """,
    "protocols/stomp/session": "handshake settings subscribe_command",
    "protocols/amqp/v1_0/wire": """
        composite composite_codec delivery_states errors frame_size frames performatives sasl_frames termini
        transaction_types value_decoder value_encoder values
    """,
    "protocols/amqp/v1_0/mapping": """
        addresses amqp_form contents jms_ids jms_types map_body message_keys outgoing_message property_types
        selector_properties stomp_form stomp_headers subscribe_options
    """,
    "protocols/amqp/v1_0/endpoints": "attach attach_fields channels handshake settings states",
    "protocols/amqp/v1_0/endpoints/links": "",
}
# Of this room only the named files are compiled, because no message passes most of the others.
STORE = """
    context disk/disk_health disk/files file_store format/layout index/index_directory index/key_index
    log/checkpoint log/chunk log/commit_log log/durable_log log/group_commit log/log_end log/log_files
    log/log_follower log/log_map log/open_files log/segment log/sync_jobs log/transaction_room
    queues/consume_queue_files queues/entry_span queues/page_read queues/queue_flush queues/subscription_release
    state/closed_segment state/consume_queue state/consumer_records state/destination state/failed_entries
    state/log_state state/progress state/settled_entries state/subscription
"""


def hot_files() -> list[str]:
    """Return the files to compile, from the root."""
    hot = [f"engine/store/{name}.py" for name in STORE.split()]
    for room, cold_names in ROOMS_BUT.items():
        names = {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"}
        cold = set(cold_names.split())
        if not cold <= names:
            raise SystemExit(f"setup.py: {room} has no {', '.join(sorted(cold - names))}; take it from the list")
        hot += [f"{room}/{name}.py" for name in sorted(names - cold)]
    return hot


def main() -> None:
    from setuptools import setup

    if os.environ.get("PENSTOCK_COMPILED") != "1":
        setup()
        return
    try:
        from mypyc.build import mypycify
    except ImportError:
        # pip asks for the build's requirements before it installs them: mypyc, and the packages whose types it reads.
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        setup(setup_requires=[MYPY, *project["dependencies"]])
        return
    level = os.environ.get("PENSTOCK_OPTIMIZE", "2")
    extensions = mypycify(hot_files(), group_name="penstock", opt_level=level, debug_level="0")
    for extension in extensions:
        # In a file as large as mypyc's, gcc spends minutes on the analysis for this warning.
        extension.extra_compile_args.append("-Wno-misleading-indentation")
    setup(ext_modules=extensions)


if __name__ == "__main__":
    if sys.argv[1:] == ["--hot-files"]:
        print(*hot_files(), sep="\n")
    else:
        main()
