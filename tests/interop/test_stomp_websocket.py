"""STOMP over WebSocket against the real process, with aiohttp's client; stompjs is in test_stompjs.py."""

from __future__ import annotations

import aiohttp
import pytest

from tests.support.process.gateway_process import GatewayProcess, StartGateway

LIMIT_S = 20.0
TEXT, BINARY = aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY


class Peer:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, frame: str, piece: int = 0) -> None:
        for start in range(0, len(frame), piece or len(frame)):
            await self.socket.send_str(frame[start : start + (piece or len(frame))])

    async def frame(self, command: bytes, kind: aiohttp.WSMsgType = TEXT) -> bytes:
        """Return the next message that is no heart-beat; it must be one frame of that command."""
        while True:
            message = await self.socket.receive(timeout=LIMIT_S)
            assert message.type in (TEXT, BINARY), message
            octets = message.data.encode() if isinstance(message.data, str) else message.data
            if octets != b"\n":
                assert message.type == kind
                assert octets.startswith(command)
                return bytes(octets)


CONNECT = "CONNECT\naccept-version:1.0,1.1,1.2\nhost:test\nheart-beat:0,0\n\n\0"


@pytest.mark.parametrize("piece", [0, 3])
@pytest.mark.parametrize("name", ["v12.stomp", "v11.stomp", "v10.stomp", "stomp", None])
async def test_frames_go_both_ways(name: str | None, piece: int, shared_gateway: GatewayProcess) -> None:
    queue = f"/queue/websocket.{name}.{piece}"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{shared_gateway.http_url}/ws", protocols=(name,) if name else ()) as socket,
    ):
        assert socket.protocol == name
        peer = Peer(socket)
        await peer.send(CONNECT, piece)
        assert b"\nversion:1.2\n" in await peer.frame(b"CONNECTED")
        await peer.send(f"SUBSCRIBE\nid:1\ndestination:{queue}\n\n\0", piece)
        bodies = ["grüße", "b" * 70_000, ""]
        await peer.send("".join(f"SEND\ndestination:{queue}\nreceipt:r\n\n{body}\0\n" for body in bodies), piece)
        got = [await peer.frame(b"") for _ in range(2 * len(bodies))]
        assert [frame.rpartition(b"\n\n")[2] for frame in got if frame.startswith(b"MESSAGE")] == [
            f"{body}\0\n".encode() for body in bodies
        ]
        await peer.send("DISCONNECT\nreceipt:bye\n\n\0", piece)
        await peer.frame(b"RECEIPT")


async def test_octets_that_are_no_text_come_as_a_binary_message(shared_gateway: GatewayProcess) -> None:
    frame = b"SEND\ndestination:/queue/websocket.octets\ncontent-length:4\n\n\xff\0\n\0\0"
    async with aiohttp.ClientSession() as session, session.ws_connect(shared_gateway.http_url) as socket:
        peer = Peer(socket)
        await peer.send(CONNECT)
        await peer.frame(b"CONNECTED")
        await socket.send_bytes(frame)
        await peer.send("SUBSCRIBE\nid:1\ndestination:/queue/websocket.octets\n\n\0")
        assert (await peer.frame(b"MESSAGE", BINARY)).endswith(b"\n\n\xff\0\n\0\0\n")


async def test_a_turn_with_many_messages_is_a_message_each(shared_gateway: GatewayProcess) -> None:
    count = 500
    async with aiohttp.ClientSession() as session, session.ws_connect(shared_gateway.http_url) as socket:
        peer = Peer(socket)
        await peer.send(CONNECT)
        await peer.frame(b"CONNECTED")
        body = "content-length:1\n\nMESSAGE\n\n"
        await peer.send(f"SEND\ndestination:/queue/websocket.many\n\n{body}\0" * count)
        await peer.send("SUBSCRIBE\nid:1\ndestination:/queue/websocket.many\nactivemq.prefetchSize:1000\n\n\0")
        for _ in range(count):
            octets = await peer.frame(b"MESSAGE")
            assert octets.endswith(f"\n\n{body}\0\n".encode())
            assert octets.count(b"\0") == 1


async def test_heart_beats_and_errors_arrive(shared_gateway: GatewayProcess) -> None:
    async with aiohttp.ClientSession() as session, session.ws_connect(shared_gateway.http_url) as socket:
        peer = Peer(socket)
        await peer.send("CONNECT\naccept-version:1.2\nhost:test\nheart-beat:0,100\n\n\0")
        await peer.frame(b"CONNECTED")
        beat = await socket.receive(timeout=LIMIT_S)
        assert (beat.type, beat.data) == (TEXT, "\n")
        await peer.send("NONSENSE\n\n\0")
        assert b"NONSENSE" in await peer.frame(b"ERROR")
        assert (await socket.receive(timeout=LIMIT_S)).type == aiohttp.WSMsgType.CLOSE


async def test_pages_of_listed_origins_get_in(start_gateway: StartGateway) -> None:
    gateway = start_gateway("http: {origins: 'https://shop.example, http://localhost:3000'}\n")
    async with aiohttp.ClientSession() as session:
        for origin, host in (("https://SHOP.example", "broker.example:8161"), ("http://localhost:3000", "localhost")):
            headers = {"Origin": origin, "Host": host}
            async with session.ws_connect(gateway.http_url, headers=headers) as socket:
                peer = Peer(socket)
                await peer.send(CONNECT)
                await peer.frame(b"CONNECTED")
        for origin in ("https://elsewhere.example", "http://shop.example", "null"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(gateway.http_url, headers={"Origin": origin})
            assert caught.value.status == 403
        async with session.get(f"{gateway.http_url}/api/stat", headers={"Origin": "https://shop.example"}) as answer:
            assert answer.status == 403, "the list is for WebSockets: their protocols log in by themselves"
