"""The files of a store, served over HTTP as a gateway serves them, without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from gateway.logins.login_check import LoginCheck
from gateway.web.limits.request_memory import RequestMemory
from gateway.web.management.log_leases import LogLeases
from gateway.web.management.log_readers import LogReaders
from gateway.web.management.store import LiveStore
from tests.support.store.sample_store import SampleStore
from tests.support.web import OPEN, serving

HOUR_MS: Final = 3_600_000


def served(store: SampleStore, work: Callable[[str], None], login_check: LoginCheck = OPEN) -> None:
    """Serve the files of a store over HTTP, and do the work elsewhere with the URL."""

    def never() -> Any:
        raise AssertionError("not asked for")

    async def serve() -> None:
        async with serving(
            login_check=login_check,
            store=LiveStore(str(store.directory), never, never, RequestMemory()),
            leases=LogLeases(str(store.directory), HOUR_MS, RequestMemory()),
            readers=LogReaders(str(store.directory), RequestMemory()),
        ) as web:
            await asyncio.to_thread(work, str(web.make_url("")).rstrip("/"))

    asyncio.run(serve())
