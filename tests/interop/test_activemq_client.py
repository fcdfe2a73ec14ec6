"""ActiveMQ's own JMS client over OpenWire against the real process: one JVM runs all scenarios of a release."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from config.scram import hash_password
from tests.support.process import drained_consumer
from tests.support.process.certificates import Certificates
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.scenarios import SHORT_LIVED_JVM, run_scenarios
from tests.support.process.stomp_py import Connect

PROJECT: Final = Path(__file__).with_name("activemq")
BUILD_LIMIT_S: Final = 600
RUN_LIMIT_S: Final = 300
OLDEST: Final = "5.15.16"
RELEASES: Final = ("5.18.7", "6.1.8", OLDEST)  # the first one also runs what depends on no release

MIXED: Final = "6.1.8"  # its JMS is that of Qpid JMS

CommandOf = Callable[[str], list[str]]

pytestmark = pytest.mark.slow

SCENARIOS: Final = (
    "headersAndProperties",
    "nonPersistent",
    "bodies",
    "compressedBodies",
    "topics",
    "transactionsBeyondThePrefetch",
    "clientAcknowledge",
    "individualAcknowledge",
    "dupsOkAcknowledge",
    "optimizeAcknowledge",
    "poison",
    "selectors",
    "durableSubscription",
    "browser",
    "pull",
    "requestReply",
    "expiry",
    "composite",
    "listener",
    "producerWindow",
    "scheduled",
    "exclusive",
    "redeliveredAfterClose",
    "insistsOnTightEncoding",
    "temporaryTopic",
    "retroactive",
    "durableWithChanges",
    "durableWildcard",
    "browserBeyondItsPrefetch",
    "browserWithoutPrefetch",
    "wildcardQueues",
    "noLocal",
    "exclusiveHandOver",
    "consumerPriority",
    "groups",
    "prefetchInTheName",
    "pendingLimit",
    "priorities",
    "rollbackKeepsDeliveries",
    "overtakingRedelivery",
    "individualInTransaction",
    "listenerThatRollsBack",
    "listenerThatThrows",
    "deliveriesAfterAnOrderlyClose",
    "pullInTransaction",
    "pullAfterARollback",
    "closeOfSeveralConsumers",
    "firstOfAGroup",
    "pullsShare",
    "expiredAtTheClient",
    "repeatedSchedule",
    "sendWithCallback",
    "synchronousOptions",
    "virtualTopic",
    "largeMessage",
    "idleConnection",
    "manySessions",
    "xaTwoPhases",
    "xaOnePhase",
    "xaRollback",
    "xaReadOnly",
    "xaCodes",
    "xaJoin",
    "xaDurable",
    "destinationSource",
    "consumerAdvisories",
    "producerAdvisories",
    "connectionAdvisories",
    "advisoriesByWildcard",
    "deadLetterAdvisory",
    "expiredAdvisory",
)

SLOW_SCENARIOS: Final = {"idleConnection"}  # more than five seconds of silence; the first release has it always


def built(java: str, home: Path, release: str) -> list[str]:
    """Return the command that runs scenarios with a release of the client."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("needs Maven on the PATH")
    shutil.copytree(PROJECT, home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
    if release.startswith("6"):
        for source in home.glob("src/main/java/*.java"):
            source.write_text(source.read_text().replace("javax.jms", "jakarta.jms"))
    goals = ["compile", "dependency:build-classpath", "-Dmdep.outputFile=target/classpath", f"-Dclient={release}"]
    if release == MIXED:
        goals.append("-Pmixed")
    done = subprocess.run(
        [maven, "-q", "-B", *goals], cwd=home, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False
    )
    if done.returncode != 0 and "COMPILATION ERROR" not in done.stdout:
        pytest.skip(f"Maven could not bring activemq-client {release}")
    assert done.returncode == 0, done.stdout[-3000:]
    classpath = f"{home / 'target/classes'}:{(home / 'target/classpath').read_text()}"
    return [java, *SHORT_LIVED_JVM, "-cp", classpath, "Scenarios"]


@pytest.fixture(scope="session")
def command_of(java: str, tmp_path_factory: pytest.TempPathFactory) -> CommandOf:
    """A function that returns the command for a release, which it builds once."""
    commands: dict[str, list[str]] = {}

    def found(release: str) -> list[str]:
        if release not in commands:
            commands[release] = built(java, tmp_path_factory.mktemp("activemq"), release)
        return commands[release]

    return found


@pytest.fixture(scope="session")
def command(command_of: CommandOf) -> list[str]:
    return command_of(RELEASES[0])


def url(gateway: GatewayProcess) -> str:
    return f"tcp://127.0.0.1:{gateway.stomp_port}"


def run(command: list[str], gateway: GatewayProcess, *names: str) -> dict[str, str]:
    """Return the outcome of each scenario, "" for one that went well."""
    return run_scenarios([*command, url(gateway)], names, RUN_LIMIT_S)


@pytest.fixture(scope="session")
def outcomes(command: list[str], shared_gateway: GatewayProcess) -> dict[str, str]:
    return run(command, shared_gateway, *SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""


@pytest.mark.parametrize("release", RELEASES[1:])
def test_other_releases(release: str, command_of: CommandOf, start_gateway: StartGateway, is_long: bool) -> None:
    if release == OLDEST and not is_long:
        pytest.skip("the long form takes the oldest release, too")
    names = [name for name in SCENARIOS if is_long or name not in SLOW_SCENARIOS]
    found = run(command_of(release), start_gateway(), *names)
    assert {name: why for name, why in found.items() if why} == {}


def test_login(command: list[str], start_gateway: StartGateway) -> None:
    verifiers = "".join(f"\n      - {one}" for one in hash_password("secret", 4096))
    gateway = start_gateway(f"users:\n  alice:\n    verifiers:{verifiers}\n")
    assert run(command, gateway, "wrongPassword") == {"wrongPassword": ""}


def test_a_token_as_the_password(command: list[str], start_gateway: StartGateway, tmp_path: Path) -> None:
    pytest.importorskip("jwt", reason="needs the extra jwt")
    from tests.support.token_issuer import Issuer, configured_keys

    issuer = Issuer()
    gateway = start_gateway(configured_keys(issuer, tmp_path))
    with_token = [command[0], f"-Dtoken={issuer.token('ann')}", *command[1:]]
    assert run(with_token, gateway, "tokenAsPassword") == {"tokenAsPassword": ""}


def test_a_user_beyond_its_rate_is_slowed(command: list[str], start_gateway: StartGateway) -> None:
    gateway = start_gateway("limits: {messages-per-second-per-user: 20}\n")
    assert run(command, gateway, "slowedUser") == {"slowedUser": ""}
    lines = gateway.get("/metrics")[1].splitlines()
    waits = next(line for line in lines if line.startswith('penstock_producer_waits_total{gate="user-rate"}'))
    assert float(waits.split()[1]) > 0


def test_acknowledgements_of_a_drain_count(command: list[str], start_gateway: StartGateway) -> None:
    gateway = start_gateway(drained_consumer.CONFIG)
    took = drained_consumer.taken_in_a_drain([*command, url(gateway)], gateway, RUN_LIMIT_S)
    assert 10 <= took < drained_consumer.SENT, "its prefetch, and what it was given for the first one"
    assert drained_consumer.left_after(gateway, "ow.drained") == drained_consumer.SENT - took


def test_messages_to_and_from_stomp(command: list[str], shared_gateway: GatewayProcess, connect: Connect) -> None:
    client = connect("1.2", auto_decode=False)
    text = "hé 😀"
    client.send("/queue/ow.fromOthers", text, colour="red", correlation_id="c", amq_msg_type="text")
    client.send("/queue/ow.fromOthers", b"\x01\xff", amq_msg_type="bytes")
    client.subscribe("/queue/ow.toOthers")
    assert run(command, shared_gateway, "fromOthers", "toOthers") == {"fromOthers": "", "toOthers": ""}
    first, octets, the_map = (client.message() for _ in range(3))
    assert first.body == text.encode()
    assert (first.headers["n"], first.headers["correlation-id"]) == ("7", "c")
    assert octets.body == b"\x01\xff"
    assert the_map.headers["transformation"] == "jms-map-json"


def test_messages_to_and_from_qpid_jms(command_of: CommandOf, shared_gateway: GatewayProcess, connect: Connect) -> None:
    command = command_of(MIXED)
    assert run(command, shared_gateway, "typedBothWays") == {"typedBothWays": ""}
    client = connect("1.2")
    client.subscribe("/queue/mixed.back")
    texts = [f"m{number}" for number in range(90)]
    with talking(command, shared_gateway, "sharedQueue") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for text in texts:
            client.send("/queue/mixed.shared", text, amq_msg_type="text")
        assert process.stdout.readline() == "ok sharedQueue\n"
    assert sorted(client.message().body for _ in texts) == sorted(texts)


def test_limits(command: list[str], start_gateway: StartGateway) -> None:
    gateway = start_gateway(
        "openwire:\n  limits: {frame-bytes: 200000}\n"
        "addresses:\n  - match: ow.slow\n"
        "    abort-slow-consumers: {strategy: slow, check-period-ms: 200, max-slow-duration-ms: 400}\n"
    )
    found = run(command, gateway, "tooLargeMessage", "slowConsumer")
    assert found == {"tooLargeMessage": "", "slowConsumer": ""}


def test_over_tls(command: list[str], start_gateway: StartGateway, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    gateway = start_gateway(certificates.configuration())
    trust = f"-Dtrust={certificates.trust_store('secret')}"
    address = f"ssl://localhost:{gateway.stomp_port}"
    assert run_scenarios([command[0], trust, *command[1:], address], ["overTls"], RUN_LIMIT_S) == {"overTls": ""}


def test_what_a_client_has_asked_for_is_explained(command: list[str], shared_gateway: GatewayProcess) -> None:
    with talking(command, shared_gateway, "asks") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        connections = shared_gateway.get_json("/api/stat")["consumers"]
        (number,) = {one["connection_id"] for one in connections if one["destination"] == "queue://ow.asked"}
        asked = shared_gateway.get_json(f"/api/explain/destination/ow.asked?connection={number}")["asked"]
        process.communicate("done\n", timeout=RUN_LIMIT_S)
    assert asked[0] == f"ActiveMQ {RELEASES[0]}, OpenWire 12, silence of 5000 ms is allowed"
    assert asked[-1].endswith("of queue://ow.asked: prefetch 7, exclusive, priority 3, selector 'n > 1'")


@contextmanager
def talking(command: list[str], gateway: GatewayProcess, name: str) -> Iterator[subprocess.Popen[str]]:
    """Run a scenario that is told by lines when to go on."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*command, url(gateway), name], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_distributed_transactions_over_kill_9(command: list[str], start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    port = gateway.stomp_port
    with talking(command, gateway, "xaOverKills") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for state, count in (("prepared", 3), ("decided", 1)):
            assert process.stdout.readline() == f"{state}\n"
            assert gateway.get_json("/api/transactions")["prepared"] == count
            gateway.kill9()
            gateway.start(port)
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stdout.readline() == "ok xaOverKills\n"


@pytest.mark.parametrize("release", RELEASES)
def test_an_operator_decides(release: str, command_of: CommandOf, start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    with talking(command_of(release), gateway, "xaDecided") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "prepared\n"
        for word, name in (("commit", "committed"), ("rollback", "dropped")):
            status, text = gateway.get(f"/api/transactions/{word}", {"xid": f"1-{name.encode().hex()}-01"})
            assert status == 200, text
        out, _ = process.communicate("\n", timeout=RUN_LIMIT_S)
    assert out == "ok xaDecided\n"


@pytest.mark.parametrize("release", RELEASES)
def test_every_way_over_kill_9(release: str, command_of: CommandOf, start_gateway: StartGateway, is_long: bool) -> None:
    if release != RELEASES[0] and not is_long:
        pytest.skip("the long form takes the other releases, too")
    gateway = start_gateway()
    port = gateway.stomp_port
    with talking(command_of(release), gateway, "overKills") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(2):
            time.sleep(1)  # let it send and receive
            gateway.kill9()
            gateway.start(port)
        time.sleep(1)
        out, _ = process.communicate("done\n", timeout=RUN_LIMIT_S)
    assert out == "ok overKills\n"
