"""A message that an honest client has scheduled comes in its time, whatever others ask for meanwhile."""

from __future__ import annotations

from tests.support.hostile.honest_clients import DueTrips, Trips, go_on
from tests.support.hostile.hostile_peers import Hostiles, frame
from tests.support.process.gateway_process import GatewayProcess

MANAGEMENT = "/topic/ActiveMQ.Scheduler.Management"
STATISTICS = "/queue/ActiveMQ.Statistics.Destination.>"


def test_what_is_due_arrives_while_others_do_their_worst(
    attacked: GatewayProcess, hostile: Hostiles, trips: list[Trips]
) -> None:
    due = DueTrips(attacked)
    due.more(1)
    peers = [hostile.stomp() for _ in range(6)]
    costly = "p LIKE '%" + "a%" * 30 + "b'"
    for number, peer in enumerate(peers):
        peer.write(frame("SUBSCRIBE", id="1", destination="/topic/plain.>", selector=costly))
        peer.write(frame("SUBSCRIBE", id="2", destination="/temp-queue/mine"))
        for _ in range(20):
            peer.write(frame("SEND", destination="/topic/plain.due", p="a" * 4_000))
            peer.write(frame("SEND", b"x", destination=f"/queue/drop.{number}", AMQ_SCHEDULED_DELAY="50"))
            asked = {"reply-to": "/temp-queue/mine", "AMQ_SCHEDULER_ACTION": "REMOVEALL"}
            peer.write(frame("SEND", destination=MANAGEMENT, **asked))
        peer.write(
            frame("SEND", destination="/queue/ActiveMQ.Statistics.Destination.>", **{"reply-to": "/temp-queue/mine"})
        )
    due.more(3)
    go_on(trips)
    due.stop()
    for number in range(6):
        hostile.empty(f"drop.{number}")
