"""Permissions of every broker's files, enforced by the real process for STOMP (stomp.py, Ruby) and AMQP (proton)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from config.scram import hash_password
from tests.support.process.command import answer
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import Client

if TYPE_CHECKING:
    from proton.utils import BlockingConnection
else:
    pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")
    from proton.utils import BlockingConnection

from proton import ConnectionException, Message, Timeout
from proton.reactor import Copy, DurableSubscription
from proton.utils import LinkDetached

RUBY_SCRIPT: Final = Path(__file__).with_name("ruby") / "permissions.rb"
LIMIT_S: Final = 60.0

# Everybody's password is "secret", and everybody's group is called as he is.  In ``orders.>`` the reader receives, the
# writer sends and the admin makes; ``orders.open`` is for everybody who has logged in; the rest is the admin's.
ACTIVEMQ: Final = """\
<beans><broker xmlns="http://activemq.apache.org/schema/core"><plugins>
  <simpleAuthenticationPlugin><users>
    <authenticationUser username="reader" password="secret" groups="reader,all"/>
    <authenticationUser username="writer" password="secret" groups="writer,all"/>
    <authenticationUser username="admin" password="secret" groups="admin,all"/>
  </users></simpleAuthenticationPlugin>
  <authorizationPlugin><map><authorizationMap><authorizationEntries>
    <authorizationEntry queue=">" read="admin" write="admin" admin="admin"/>
    <authorizationEntry queue="orders.>" read="reader" write="writer" admin="admin"/>
    <authorizationEntry queue="orders.open" read="all" write="all" admin="all"/>
    <authorizationEntry topic=">" read="admin" write="admin" admin="admin"/>
    <authorizationEntry topic="orders.>" read="reader" write="writer" admin="admin"/>
  </authorizationEntries></authorizationMap></map></authorizationPlugin>
</plugins></broker></beans>
"""
_HORNETQ_SETTINGS: Final = """\
<configuration xmlns="urn:hornetq"><security-settings>
  <security-setting match="#">
    <permission type="send" roles="admin"/><permission type="consume" roles="admin"/>
    <permission type="createDurableQueue" roles="admin"/><permission type="createNonDurableQueue" roles="admin"/>
    <permission type="deleteDurableQueue" roles="admin"/>
  </security-setting>
  <security-setting match="jms.queue.orders.#">
    <permission type="send" roles="writer,admin"/><permission type="consume" roles="reader,admin"/>
    <permission type="createDurableQueue" roles="admin"/>
  </security-setting>
  <security-setting match="jms.queue.orders.open">
    <permission type="send" roles="all"/><permission type="consume" roles="all"/>
    <permission type="createDurableQueue" roles="all"/>
  </security-setting>
  <security-setting match="jms.topic.orders.#">
    <permission type="send" roles="writer,admin"/><permission type="consume" roles="reader,admin"/>
    <permission type="createDurableQueue" roles="admin"/><permission type="deleteDurableQueue" roles="admin"/>
    <permission type="createNonDurableQueue" roles="reader,admin"/>
  </security-setting>
</security-settings></configuration>
"""
_HORNETQ_JMS: Final = """\
<configuration xmlns="urn:hornetq"><queue name="orders.declared"/><topic name="orders.prices"/></configuration>
"""
_HORNETQ_USERS: Final = """\
<configuration xmlns="urn:hornetq">
  <user name="reader" password="secret"><role name="reader"/><role name="all"/></user>
  <user name="writer" password="secret"><role name="writer"/><role name="all"/></user>
  <user name="admin" password="secret"><role name="admin"/><role name="all"/></user>
</configuration>
"""
_ARTEMIS: Final = """\
<configuration xmlns="urn:activemq"><core><security-settings>
  <security-setting match="#">
    <permission type="send" roles="admin"/><permission type="consume" roles="admin"/>
    <permission type="createDurableQueue" roles="admin"/><permission type="createAddress" roles="admin"/>
    <permission type="createNonDurableQueue" roles="admin"/><permission type="browse" roles="admin"/>
  </security-setting>
  <security-setting match="orders.#">
    <permission type="send" roles="writer,admin"/><permission type="consume" roles="reader,admin"/>
    <permission type="browse" roles="admin"/>
    <permission type="createDurableQueue" roles="admin"/><permission type="createAddress" roles="admin"/>
    <permission type="createNonDurableQueue" roles="reader,admin"/>
    <permission type="deleteDurableQueue" roles="admin"/>
  </security-setting>
  <security-setting match="orders.open">
    <permission type="send" roles="all"/><permission type="consume" roles="all"/><permission type="browse" roles="all"/>
    <permission type="createDurableQueue" roles="all"/><permission type="createAddress" roles="all"/>
  </security-setting>
</security-settings></core></configuration>
"""
# Artemis keeps its users in properties files; here they stand in a penstock.yaml beside its broker.xml.
_USERS_YAML: Final = """\
users:
  reader: {{verifiers: {0}, groups: [reader, all]}}
  writer: {{verifiers: {0}, groups: [writer, all]}}
  admin: {{verifiers: {0}, groups: [admin, all]}}
destinations: [queue://orders.declared, topic://orders.prices]
"""
_ACTIVEMQ_MORE: Final = "destinations: [queue://orders.declared, topic://orders.prices]\n"


@pytest.fixture(scope="module", params=["activemq", "hornetq", "artemis", "migrated"])
def guarded(
    request: pytest.FixtureRequest, start_session_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    if request.param == "activemq":
        yield start_session_gateway(ACTIVEMQ, more=[_ACTIVEMQ_MORE])
    elif request.param == "hornetq":
        yield start_session_gateway(_HORNETQ_SETTINGS, more=[_HORNETQ_JMS, _HORNETQ_USERS])
    elif request.param == "migrated":
        file = tmp_path_factory.mktemp("migrated") / "activemq.xml"
        file.write_text(ACTIVEMQ)
        yield start_session_gateway(answer("migrate", str(file)), more=[_ACTIVEMQ_MORE])
    else:
        yield start_session_gateway(_ARTEMIS, more=[_USERS_YAML.format(hash_password("secret", 4_096))])


@pytest.fixture
def dialect(request: pytest.FixtureRequest) -> str:
    """Which broker's files the guarded gateway has."""
    return str(request.node.callspec.params["guarded"])


# -- what is asked of each protocol: (who, what, destination, what the refusal says; "" for allowed)

EVERYWHERE: Final = [
    ("writer", "send", "queue orders.declared", ""),
    ("reader", "send", "queue orders.declared", "no permission to write queue://orders.declared"),
    ("reader", "receive", "queue orders.declared", ""),
    ("writer", "receive", "queue orders.declared", "no permission to read queue://orders.declared"),
    ("writer", "send", "queue orders.new", "no permission to create queue://orders.new"),
    ("admin", "send", "queue orders.made", ""),
    ("reader", "send", "queue payments", "no permission to write queue://payments"),
    ("writer", "receive", "queue payments", "no permission to read queue://payments"),
    ("reader", "send", "queue orders.open", ""),
    ("writer", "receive", "queue orders.open", ""),
    ("writer", "send", "topic orders.prices", ""),
    ("reader", "send", "topic orders.prices", "no permission to write topic://orders.prices"),
    ("reader", "receive", "topic orders.prices", ""),
    ("writer", "receive", "topic orders.prices", "no permission to read topic://orders.prices"),
    ("reader", "send", "topic news", "no permission to write topic://news"),
]
# ActiveMQ has one word for every kind of subscription, HornetQ guards durable ones, Artemis browsing as well.
GUARDED: Final = {
    "activemq": [("reader", "durable", ""), ("reader", "browse", "")],
    "migrated": [("reader", "durable", ""), ("reader", "browse", "")],
    "hornetq": [
        ("reader", "durable", "no permission to subscribe-durable topic://orders.prices"),
        ("reader", "browse", ""),
    ],
    "artemis": [
        ("reader", "durable", "no permission to subscribe-durable topic://orders.prices"),
        ("reader", "browse", "no permission to browse queue://orders.declared"),
        ("admin", "durable", ""),
        ("admin", "browse", ""),
    ],
}
PLACES: Final = {"durable": "topic orders.prices", "browse": "queue orders.declared"}


def login(gateway: GatewayProcess, who: str, **headers: str) -> Client:
    return Client(gateway, "1.2", heartbeats=(0, 0)).connect(who, "secret", **headers)


def check_stomp(gateway: GatewayProcess, who: str, what: str, place: str, refusal: str) -> None:
    client = login(gateway, who, **({"client-id": f"{who}-stomp"} if what == "durable" else {}))
    destination = "/" + place.replace(" ", "/")
    if refusal:
        if what == "send":
            client.connection.send(destination, "x", headers={"receipt": "r"})
        else:
            client.connection.subscribe(destination, id="1", ack="auto", headers=asked(what))
        error = client.error()
        assert error.headers["condition"] == "access-denied" and refusal in str(error.body), error
        return
    if what == "send":
        client.send(destination, "x")
    else:
        client.subscribe(destination, "client", **asked(what))
        if what == "durable":
            client.unsubscribe(**asked(what))
    client.close()


def asked(what: str) -> dict[str, str]:
    """Return the headers of SUBSCRIBE."""
    if what == "durable":
        return {"activemq.subscriptionName": "bills"}
    return {"browser": "true"} if what == "browse" else {}


@pytest.mark.parametrize(("who", "what", "place", "refusal"), EVERYWHERE)
def test_stomp_py(who: str, what: str, place: str, refusal: str, guarded: GatewayProcess) -> None:
    check_stomp(guarded, who, what, place, refusal)


def test_stomp_py_browses_and_subscribes_durably(guarded: GatewayProcess, dialect: str) -> None:
    for who, what, refusal in GUARDED[dialect]:
        check_stomp(guarded, who, what, PLACES[what], refusal)


def check_amqp(gateway: GatewayProcess, who: str, what: str, place: str, refusal: str) -> None:
    options: dict[str, Any] = {"container_id": f"{who}-amqp"} if what == "durable" else {}
    connection = BlockingConnection(
        f"amqp://{who}:secret@127.0.0.1:{gateway.stomp_port}", timeout=LIMIT_S, allowed_mechs="PLAIN", **options
    )
    try:
        if refusal:
            with pytest.raises(LinkDetached, match="unauthorized-access") as caught:
                use(connection, what, place)
            assert refusal in str(caught.value)
        else:
            use(connection, what, place)
    finally:
        with suppress(Timeout, ConnectionException):
            connection.close()


def use(connection: BlockingConnection, what: str, place: str) -> None:
    address = place.replace(" ", "://")
    if what == "send":
        connection.create_sender(address).send(Message("x"))
    elif what == "durable":
        receiver: Any = connection.create_receiver(address, name="bills", options=DurableSubscription())
        receiver.close()  # ends the subscription
    else:
        connection.create_receiver(address, options=Copy() if what == "browse" else None)


@pytest.mark.parametrize(("who", "what", "place", "refusal"), EVERYWHERE)
def test_proton(who: str, what: str, place: str, refusal: str, guarded: GatewayProcess) -> None:
    check_amqp(guarded, who, what, place, refusal)


def test_proton_browses_and_subscribes_durably(guarded: GatewayProcess, dialect: str) -> None:
    for who, what, refusal in GUARDED[dialect]:
        check_amqp(guarded, who, what, PLACES[what], refusal)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_ruby(version: str, ruby: str, guarded: GatewayProcess) -> None:
    command = [ruby, str(RUBY_SCRIPT), guarded.stomp_host, str(guarded.stomp_port), version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["writer sends", "writer may not receive", "reader receives"], done.stderr


def test_nobody_gets_in_without_being_known(guarded: GatewayProcess) -> None:
    for who, password in (("", ""), ("reader", "wrong"), ("stranger", "secret")):
        client = Client(guarded, "1.2", heartbeats=(0, 0))
        client.connection.connect(who or None, password or None)
        assert client.error().headers["condition"] == "login-refused"


def test_a_wildcard_takes_only_from_what_may_be_read(guarded: GatewayProcess) -> None:
    reader, admin = login(guarded, "reader"), login(guarded, "admin")
    admin.send("/queue/secret.plans", "not for readers")
    admin.send("/queue/orders.wild", "for readers")
    reader.subscribe("/queue/orders.*", "client", selector="mark = 'wild'")
    admin.send("/queue/orders.wild", "seen", mark="wild")
    assert reader.message().body == "seen"
    reader.connection.subscribe("/queue/>", id="2", ack="auto", headers={"receipt": "r"})
    assert "no permission to read queue://>" in str(reader.error().body)
    admin.close()


def test_several_destinations_are_refused_whole(guarded: GatewayProcess) -> None:
    writer, reader = login(guarded, "writer"), login(guarded, "reader")
    reader.subscribe("/topic/orders.prices")
    writer.connection.send("/topic/orders.prices,/queue/payments", "x", headers={"receipt": "r"})
    assert "no permission to write queue://payments" in str(writer.error().body)
    again = login(guarded, "writer")
    again.send("/topic/orders.prices", "alone")
    assert reader.message().body == "alone"
    for client in (reader, again):
        client.close()


def test_temporary_destinations_are_for_everybody(guarded: GatewayProcess) -> None:
    asking, answering = login(guarded, "reader"), login(guarded, "writer")
    asking.subscribe("/temp-queue/answers")
    answering.subscribe("/queue/orders.open", "auto", selector="mark = 'temp'")
    asking.send("/queue/orders.open", "?", reply_to="/temp-queue/answers", mark="temp")
    answering.send(answering.message().headers["reply-to"], "!")
    assert asking.message().body == "!"
    for client in (asking, answering):
        client.close()
