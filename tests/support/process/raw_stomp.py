"""Single and broken frames, sent and examined one by one."""

from __future__ import annotations

from typing import Final

from gateway.cli.shared.blocking_client import BlockingClient, ConnectionLost, StompLink, expect
from protocols.stomp.codec.frames import ACK, ERROR, MESSAGE, NAMES, RECEIPT, SUBSCRIBE, Frame
from tests.support.process.gateway_process import GatewayProcess

LIMIT_S: Final = 60.0


def link(gateway: GatewayProcess) -> StompLink:
    """Connect without sending an octet."""
    return StompLink(gateway.stomp_host, gateway.stomp_port, LIMIT_S)


def client(gateway: GatewayProcess) -> BlockingClient:
    return BlockingClient(gateway.stomp_host, gateway.stomp_port, limit_s=LIMIT_S)


def call(sender: BlockingClient, command: int, headers: list[tuple[str, str]]) -> None:
    """Send a frame and wait for its receipt, which must be the next frame.  Raises: Refused."""
    sender.send(command, [*headers, ("receipt", "call")])
    expect(sender.next_frame(), RECEIPT)


def subscribe(consumer: BlockingClient, destination: str, prefetch: int) -> None:
    """Subscribe as ``s``, each message to be acknowledged singly, and wait for the receipt."""
    call(
        consumer,
        SUBSCRIBE,
        [
            ("id", "s"),
            ("destination", destination),
            ("ack", "client-individual"),
            ("activemq.prefetchSize", str(prefetch)),
        ],
    )


def send_ack(consumer: BlockingClient, message: Frame, receipt: str) -> None:
    consumer.send(ACK, [("id", message.head.headers["ack"]), ("receipt", receipt)])


def message(consumer: BlockingClient) -> Frame:
    frame = consumer.next_frame()
    assert frame.command == MESSAGE, f"{NAMES[frame.command]!r} instead of MESSAGE: {frame.head.headers} {frame.body!r}"
    return frame


def error_then_end(peer: StompLink) -> Frame:
    """Return the ERROR that must come; the connection must close after it."""
    frame = peer.next_frame()
    while frame.command != ERROR:
        frame = peer.next_frame()
    try:
        after = peer.next_frame()
    except ConnectionLost:
        return frame
    raise AssertionError(f"after the ERROR came {NAMES[after.command]!r}: {after.head.headers}")
