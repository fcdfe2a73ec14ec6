"""Qpid JMS, a Jakarta Messaging client in Java, against the real process: one JVM runs all scenarios of a module."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from config.scram import hash_password
from tests.support.process import drained_consumer
from tests.support.process.certificates import Certificates
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.scenarios import SHORT_LIVED_JVM, run_scenarios

PROJECT = Path(__file__).with_name("java")
BUILD_LIMIT_S = 600
RUN_LIMIT_S = 300

pytestmark = pytest.mark.slow

SCENARIOS = (
    "queueInOrder",
    "topicToAll",
    "messageTypes",
    "headersAndProperties",
    "typedProperties",
    "anonymousProducer",
    "transactions",
    "transactedReceiveWithRollback",
    "closedTransactedSessionRollsBack",
    "clientAcknowledge",
    "dupsOkAcknowledge",
    "individualAcknowledge",
    "noAcknowledge",
    "acknowledgeTypes",
    "listenerThatThrows",
    "compositeDestination",
    "recover",
    "deadLetter",
    "redeliveryPolicy",
    "redeliveryToDeadLetter",
    "selectors",
    "topicSelector",
    "noLocal",
    "durableSubscription",
    "sharedSubscription",
    "sharedDurableSubscription",
    "requestReply",
    "browser",
    "deliveryDelay",
    "timeToLive",
    "priorities",
    "prefetchZero",
    "prefetchOne",
    "prefetchThousand",
    "listener",
    "uniqueClientId",
    "largeMessage",
)


@pytest.fixture(scope="session")
def command(java: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs scenarios, built first."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("needs Maven on the PATH")
    home = tmp_path_factory.mktemp("java")
    shutil.copytree(PROJECT, home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
    built = subprocess.run(
        [maven, "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=target/classpath"],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    if built.returncode != 0 and "COMPILATION ERROR" not in built.stdout:
        pytest.skip("Maven could not bring Qpid JMS")
    assert built.returncode == 0, built.stdout[-3000:]
    classpath = f"{home / 'target/classes'}:{(home / 'target/classpath').read_text()}"
    return [java, *SHORT_LIVED_JVM, "-cp", classpath, "Scenarios"]


def run(command: list[str], gateway: GatewayProcess, *names: str, uri: str = "") -> dict[str, str]:
    """Return the outcome of each scenario, "" for one that went well."""
    return run_scenarios([*command, uri or f"amqp://127.0.0.1:{gateway.stomp_port}"], names, RUN_LIMIT_S)


@pytest.fixture(scope="session")  # once a gateway: the scenarios leave messages behind
def outcomes(command: list[str], shared_gateway: GatewayProcess) -> dict[str, str]:
    return run(command, shared_gateway, *SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""


def test_the_lake_has_what_jms_sent(outcomes: dict[str, str], shared_gateway: GatewayProcess) -> None:
    pytest.importorskip("pyarrow")
    from tests.support.store.lake_rows import TYPED_PROPERTIES, lake_rows, typed_properties

    assert outcomes["messageTypes"] == ""
    rows = lake_rows(shared_gateway.data, "jms.messageTypes")
    octets, the_map, stream, java_object, plain, null = rows
    headers = [dict(row["headers"]) for row in rows]
    assert (octets["body"], octets["body_text"]) == (b"\x01\x02\xff", None)
    assert headers[1]["content-type"] == "application/vnd.amqp-1.0"  # JSON cannot express its octets
    assert the_map["body"].startswith(b"\x00\x53\x77")
    assert (stream["body_text"], headers[2]["amqp-body"]) == ('[8, "s"]', "sequence")
    assert java_object["body"].startswith(b"\xac\xed")
    assert headers[3]["content-type"] == "application/x-java-serialized-object"
    assert (plain["body"], plain["body_text"]) == (None, "")
    assert (null["body_text"], headers[5]["amqp-body"]) == ("", "null")
    assert outcomes["typedProperties"] == ""
    (typed,) = lake_rows(shared_gateway.data, "jms.typedProperties")
    assert typed_properties(typed) == TYPED_PROPERTIES


def test_over_websocket(command: list[str], shared_gateway: GatewayProcess) -> None:
    uri = shared_gateway.http_url.replace("http://", "amqpws://")
    names = ("headersAndProperties", "listener", "sharedDurableSubscription", "timeToLive")
    assert run(command, shared_gateway, *names, uri=uri) == dict.fromkeys(names, "")


def test_login(command: list[str], start_gateway: StartGateway) -> None:
    verifiers = "".join(f"\n      - {one}" for one in hash_password("secret", 4096))
    gateway = start_gateway(f"users:\n  alice:\n    verifiers:{verifiers}\n")
    assert run(command, gateway, "wrongPassword") == {"wrongPassword": ""}


def test_a_token_as_the_password(command: list[str], start_gateway: StartGateway, tmp_path: Path) -> None:
    pytest.importorskip("jwt", reason="needs the extra jwt")
    from tests.support.token_issuer import Issuer, configured_keys

    issuer = Issuer()
    verifiers = "".join(f"\n      - {one}" for one in hash_password("secret", 4096))
    gateway = start_gateway(configured_keys(issuer, tmp_path) + f"users:\n  alice:\n    verifiers:{verifiers}\n")
    with_token = [command[0], f"-Dtoken={issuer.token('ann')}", *command[1:]]
    assert run(with_token, gateway, "tokenAsPassword") == {"tokenAsPassword": ""}


def test_acknowledgements_of_a_drain_count(command: list[str], start_gateway: StartGateway) -> None:
    gateway = start_gateway(drained_consumer.CONFIG)
    uri = f"amqp://127.0.0.1:{gateway.stomp_port}"
    took = drained_consumer.taken_in_a_drain([*command, uri], gateway, RUN_LIMIT_S)
    assert 10 <= took < drained_consumer.SENT, "its prefetch, and what it was given for the first one"
    assert drained_consumer.left_after(gateway, "jms.drained") == drained_consumer.SENT - took


def test_a_producer_waits_for_room(command: list[str], start_gateway: StartGateway) -> None:
    gateway = start_gateway('addresses:\n  - match: "#"\n    address-full-policy: BLOCK\n    max-size-bytes: 100000\n')
    assert run(command, gateway, "blockedProducer") == {"blockedProducer": ""}


def test_over_tls(command: list[str], start_gateway: StartGateway, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    gateway = start_gateway(certificates.configuration())
    options = f"transport.trustStoreLocation={certificates.trust_store('secret')}&transport.trustStorePassword=secret"
    uri = f"amqps://localhost:{gateway.stomp_port}?{options}"
    assert run(command, gateway, "queueInOrder", "largeMessage", uri=uri) == {"queueInOrder": "", "largeMessage": ""}


def test_a_certificate_logs_in_by_external(command: list[str], start_gateway: StartGateway, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    verifiers = "".join(f"\n      - {one}" for one in hash_password("secret", 4096))
    gateway = start_gateway(certificates.configuration("wanted") + f"users:\n  alice:\n    verifiers:{verifiers}\n")
    trusted = f"transport.trustStoreLocation={certificates.trust_store('secret')}&transport.trustStorePassword=secret"
    address = f"amqps://localhost:{gateway.stomp_port}?{trusted}&amqp.saslMechanisms=EXTERNAL"
    outcomes = {}
    for name in ("alice", "mallory"):
        own = f"transport.keyStoreLocation={certificates.key_store(name, 'secret')}&transport.keyStorePassword=secret"
        outcomes[name] = run(command, gateway, "transactions", uri=f"{address}&{own}")["transactions"]
    assert outcomes["alice"] == ""
    assert "SASL" in outcomes["mallory"], "she is no user, so that EXTERNAL is not offered to her"


def test_a_broker_that_stops_is_heard_of(command: list[str], start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    process = subprocess.Popen(
        [*command, f"amqp://127.0.0.1:{gateway.stomp_port}", "exceptionListener"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        gateway.terminate()
        out, _ = process.communicate(timeout=RUN_LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert out == "ok exceptionListener\n"


def test_reconnect_after_kill_9(command: list[str], start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    port = gateway.stomp_port
    process = subprocess.Popen(
        [*command, f"amqp://127.0.0.1:{port}", "reconnect"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        gateway.kill9()
        gateway.start(port)
        out, _ = process.communicate("\n", timeout=RUN_LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert out == "ok reconnect\n"
