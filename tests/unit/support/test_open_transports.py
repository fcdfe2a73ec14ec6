"""A loop that ends before its connections names its test, and leaves nothing to later ones."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from tests.support.open_transports import OpenTransport


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_connection_that_is_left_open(is_closed: bool) -> None:
    ours, theirs = socket.socketpair()

    async def leave_open() -> None:
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        if is_closed:
            transport.close()

    with theirs:
        if is_closed:
            asyncio.run(leave_open())
        else:
            with pytest.warns(OpenTransport, match="a loop ends with <_SelectorSocketTransport fd=.*Protocol object"):
                asyncio.run(leave_open())
        gc.collect()
        assert theirs.recv(1) == b""
