"""Files of other brokers on a real gateway, with stomp.py and the commands that an operator would type."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stomp.exception import NotConnectedException

from tests.support.process.command import answer
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import Client

ACTIVEMQ = """\
<beans><broker xmlns="http://activemq.apache.org/schema/core">
  <destinationPolicy><policyMap><policyEntries>
    <policyEntry queue=">"><deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy>
    </policyEntry>
  </policyEntries></policyMap></destinationPolicy>
  <plugins>
    <simpleAuthenticationPlugin><users>
      <authenticationUser username="shop" password="secret" groups="shops"/>
    </users></simpleAuthenticationPlugin>
    <authorizationPlugin><map><authorizationMap><authorizationEntries>
      <authorizationEntry queue="orders.>" read="shops" write="shops" admin="shops"/>
      <authorizationEntry queue="DLQ.>" read="shops" admin="shops"/>
    </authorizationEntries></authorizationMap></map></authorizationPlugin>
    <redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><defaultEntry>
      <redeliveryPolicy maximumRedeliveries="1" initialRedeliveryDelay="20" redeliveryDelay="20"/>
    </defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin>
  </plugins>
</broker></beans>
"""


def test_an_activemq_xml_on_a_real_gateway(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    queue = f"orders.{unique('q')}"
    gateway = start_gateway(ACTIVEMQ)
    worker = Client(gateway, "1.2", heartbeats=(0, 0)).connect("shop", "secret")
    worker.subscribe(f"/queue/{queue}", "client-individual")
    worker.send(f"/queue/{queue}", "poison", persistent="true")
    for _ in range(2):
        worker.nack(worker.message())
    undertaker = Client(gateway, "1.2", heartbeats=(0, 0)).connect("shop", "secret")
    undertaker.subscribe(f"/queue/DLQ.{queue}", "client-individual")
    assert undertaker.message().body == "poison"
    undertaker.close()
    worker.close()

    intruder = Client(gateway, "1.2", heartbeats=(0, 0)).connect("shop", "secret")
    intruder.connection.send("/queue/secrets", "no permission")
    assert "no permission to write queue://secrets" in str(intruder.error())


def test_a_running_gateway_explains_a_consumer(start_gateway: StartGateway, unique: Callable[[str], str]) -> None:
    name = unique("explained")
    gateway = start_gateway("addresses: [{match: '>', prefetch: {queue-prefetch: 20}}]")
    worker = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
    worker.subscribe(f"/queue/{name}?consumer.prefetchSize=3", "client-individual")
    worker.send(f"/queue/{name}", "one")
    worker.message()
    consumer = gateway.get_json("/api/stat")["consumers"][0]
    explained = _answer(gateway, "explain", "--consumer", str(consumer["consumer_id"]), "--json")
    prefetch = json.loads(explained)["settings"]["prefetch.queue-prefetch"]
    assert prefetch["value"] == "3"
    assert [lower["value"] for lower in prefetch["overrode"]] == ["20", "1000"]
    worker.close()


def test_a_running_gateway_explains_a_connection(start_gateway: StartGateway) -> None:
    gateway = start_gateway("addresses: [{match: '>', prefetch: {queue-prefetch: 20}}]")
    wish = {"activemq.prefetchPolicy.queuePrefetch": "7"}
    worker = Client(gateway, "1.2", heartbeats=(0, 0)).connect(**wish)
    worker.subscribe("/queue/q", "client-individual", **{"activemq.prefechSize": "3"})
    (consumer,) = gateway.get_json("/api/stat")["consumers"]
    told = json.loads(_answer(gateway, "explain", "q", "--connection", str(consumer["connection_id"]), "--json"))
    prefetch = told["settings"]["prefetch.queue-prefetch"]
    assert prefetch["value"] == "7"
    assert "header activemq.prefetchPolicy.queuePrefetch of CONNECT" in prefetch["source"]
    why = _answer(gateway, "why", "consumer", str(consumer["consumer_id"]))
    assert "remark" in why and "activemq.prefechSize" in why, "a misspelt header is told"
    worker.close()


def test_options_of_a_listener_hold_for_its_connections(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path / "data", [], tmp_path / "log")
    gateway.stomp_options = (
        "jms.prefetchPolicy.queuePrefetch=1&jms.redeliveryPolicy.maximumRedeliveries=1"
        "&jms.redeliveryPolicy.initialRedeliveryDelay=10&stomp.dialect=penstock&maximumConnections=3"
    )
    gateway.start()
    try:
        worker = Client(gateway, "1.2", heartbeats=(0, 0)).connect()
        worker.subscribe("/queue/q", "client-individual")
        worker.subscribe("/queue/ActiveMQ.DLQ", subscription="dead")
        for body in ("bad", "good"):
            worker.send("/queue/q", body)
        worker.nack(worker.message())
        again = worker.message()
        assert (again.body, again.headers["JMSXDeliveryCount"]) == ("good", "1"), "one at a time, others overtake"
        worker.ack(again)
        worker.nack(worker.message())
        assert worker.message().headers["original-destination"] == "/queue/q"
        others = [Client(gateway, "1.2", heartbeats=(0, 0)).connect() for _ in range(2)]
        refused = Client(gateway, "1.2", heartbeats=(0, 0))
        # The ERROR may be here, and the socket closed, before CONNECT is sent.
        with suppress(OSError, NotConnectedException):
            refused.connection.connect()
        assert "connections" in str(refused.error().body)
        for client in (worker, *others):
            client.close()
        assert gateway.terminate() == 0
        gateway.check_store()
    finally:
        gateway.dispose()


def _answer(gateway: GatewayProcess, *command: str) -> str:
    """Return what a command says of the running gateway."""
    return answer(*command, "--http", gateway.http_url)
