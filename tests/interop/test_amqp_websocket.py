"""AMQP over WebSocket against the real process, with aiohttp's client."""

from __future__ import annotations

import aiohttp
import pytest

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Close, Flow, Open, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, protocol_header
from tests.support.process.gateway_process import GatewayProcess
from tests.support.protocols.amqp_gateway import text

LIMIT_S = 60.0


class Peer:
    """octets of messages are a stream: pieces of any size go out, whole frames come in."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.decoder = Decoder(2**20)

    async def send(self, octets: bytes, size: int = 0) -> None:
        for start in range(0, len(octets), size or len(octets)):
            await self.socket.send_bytes(octets[start : start + (size or len(octets))])

    async def frame(self, kind: type[Composite]) -> Composite:
        """Return the next frame of that kind; others before it are passed over."""
        while True:
            frame = self.decoder.next_frame()
            if frame is None:
                self.decoder.receive_data(await self.socket.receive_bytes(timeout=LIMIT_S))
            elif isinstance(frame, kind):
                return frame


@pytest.mark.parametrize("size", [0, 3])
async def test_messages_go_both_ways(size: int, shared_gateway: GatewayProcess) -> None:
    address = f"websocket.{size}"
    body = text("x" * 100_000)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{shared_gateway.http_url}/amqp", protocols=("amqp",)) as socket,
    ):
        assert socket.protocol == "amqp"
        peer = Peer(socket)
        await peer.send(protocol_header(AMQP_LAYER) + encode_frame(0, Open("web")), size)
        await peer.frame(Open)
        await peer.send(encode_frame(0, Begin(None, 0, 100, 100)), size)
        sender = Attach("s", 0, False, source=Source(), target=Target(address), initial_delivery_count=0)
        receiver = Attach("r", 1, True, source=Source(address), target=Target())
        await peer.send(encode_frame(0, sender) + encode_frame(0, receiver), size)
        await peer.send(encode_frame(0, Flow(0, 100, 0, 100, 1, 0, 5)), size)
        await peer.frame(Attach)
        await peer.send(encode_frame(0, Transfer(0, 0, b"t", 0, True), body))
        await peer.frame(Transfer)
        assert peer.decoder.payload == body
        await peer.send(encode_frame(0, Close()))
        await peer.frame(Close)
        assert (await socket.receive(timeout=LIMIT_S)).type == aiohttp.WSMsgType.CLOSE


async def test_an_unknown_sub_protocol_is_refused(shared_gateway: GatewayProcess) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(shared_gateway.http_url, protocols=("mqtt",)) as socket,
    ):
        message = await socket.receive(timeout=LIMIT_S)
        assert message.type == aiohttp.WSMsgType.CLOSE
        assert message.extra == "no sub-protocol is known; allowed is v12.stomp, v11.stomp, v10.stomp, stomp, amqp"


async def test_stomp_is_not_answered_there(shared_gateway: GatewayProcess) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(shared_gateway.http_url, protocols=("amqp",)) as socket,
    ):
        await socket.send_bytes(b"CONNECT\naccept-version:1.2\nhost:test\n\n\0")
        header = await socket.receive_bytes(timeout=LIMIT_S)
        assert header.startswith(b"AMQP"), "what is spoken here (transport 2.2)"
        assert (await socket.receive(timeout=LIMIT_S)).type == aiohttp.WSMsgType.CLOSE


async def test_a_page_of_another_site_does_not_get_in(shared_gateway: GatewayProcess) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(
                shared_gateway.http_url, protocols=("amqp",), headers={"Origin": "http://elsewhere.example"}
            )
        assert caught.value.status == 403
