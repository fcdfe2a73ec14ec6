"""TLS with real clients: on the port of what is plain, alone at a port, and with clients' certificates."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config.scram import hash_password
from tests.support.process.certificates import Certificates
from tests.support.process.gateway_process import ROOT, GatewayProcess, StartGateway

LIMIT_S = 20.0
CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def users() -> str:
    verifiers = "".join(f"\n      - {one}" for one in hash_password("secret", 4096))
    return f"users:\n  alice:\n    verifiers:{verifiers}\n"


def stomp_answer(gateway: GatewayProcess, context: ssl.SSLContext | None, request: bytes = CONNECT) -> bytes:
    """Return the first octets of the answer to CONNECT."""
    with socket.create_connection((gateway.stomp_host, gateway.stomp_port), LIMIT_S) as plain:
        stream = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        with stream:
            stream.sendall(request)
            return stream.recv(65536)


def is_taken(gateway: GatewayProcess, context: ssl.SSLContext | None) -> bool:
    """Say whether a client comes as far as CONNECTED; a refusal may come at any step, in any form."""
    try:
        return stomp_answer(gateway, context).startswith(b"CONNECTED")
    except (ssl.SSLError, ConnectionError):
        return False


def test_one_port_takes_both(start_gateway: StartGateway, certificates: Certificates) -> None:
    gateway = start_gateway(certificates.configuration())
    assert stomp_answer(gateway, None).startswith(b"CONNECTED")
    assert stomp_answer(gateway, certificates.client_context()).startswith(b"CONNECTED")
    header = b"AMQP\x00\x01\x00\x00"
    assert stomp_answer(gateway, certificates.client_context(), header) == header


def test_a_large_message_goes_through_tls(start_gateway: StartGateway, certificates: Certificates) -> None:
    stomp = pytest.importorskip("stomp")
    gateway = start_gateway(certificates.configuration())
    client = stomp.Connection12([("localhost", gateway.stomp_port)])
    client.set_ssl([("localhost", gateway.stomp_port)], ca_certs=str(certificates.ca))
    inbox = stomp.listener.TestListener(print_to_log=True)
    client.set_listener("inbox", inbox)
    client.connect(wait=True)
    client.subscribe("/queue/tls", "1")
    body = "x" * 3_000_000
    client.send("/queue/tls", body)
    inbox.wait_for_message()
    client.disconnect()
    assert inbox.get_latest_message()[1] == body


def test_whoever_says_nothing_is_let_go(start_gateway: StartGateway, certificates: Certificates) -> None:
    limits = "".join(f"{name}:\n  limits:\n    connect-time-ms: 300\n" for name in ("stomp", "amqp"))
    gateway = start_gateway(certificates.configuration() + limits)
    with socket.create_connection((gateway.stomp_host, gateway.stomp_port), LIMIT_S) as silent:
        assert silent.recv(1) == b""


def test_a_port_of_tls_alone_takes_nothing_else(
    start_gateway: StartGateway, certificates: Certificates, gateway_directory: Path
) -> None:
    gateway = start_gateway(certificates.configuration())
    gateway.terminate()
    gateway.stomp_scheme = "stomp+ssl"
    gateway.start()
    assert is_taken(gateway, certificates.client_context())
    assert not is_taken(gateway, None)


def test_a_required_certificate_is_required(start_gateway: StartGateway, certificates: Certificates) -> None:
    gateway = start_gateway(certificates.configuration("required"))
    assert not is_taken(gateway, certificates.client_context())
    carol = certificates.client_context(certificates.issue("carol"))
    assert is_taken(gateway, carol)


def test_a_certificate_logs_a_stomp_client_in(start_gateway: StartGateway, certificates: Certificates) -> None:
    gateway = start_gateway(certificates.configuration("wanted") + users())
    alice = certificates.client_context(certificates.issue("alice"))
    mallory = certificates.client_context(certificates.issue("mallory"))
    assert stomp_answer(gateway, alice).startswith(b"CONNECTED")
    assert stomp_answer(gateway, mallory).startswith(b"ERROR")
    assert stomp_answer(gateway, certificates.client_context()).startswith(b"ERROR")
    with_password = CONNECT.replace(b"host:x", b"host:x\nlogin:alice\npasscode:wrong")
    assert stomp_answer(gateway, alice, with_password).startswith(b"ERROR")


def test_external_is_offered_to_who_has_a_certificate(start_gateway: StartGateway, certificates: Certificates) -> None:
    utils: Any = pytest.importorskip("proton.utils", reason="needs python-qpid-proton (pip builds it from source)")
    from proton import ConnectionException, Message, SSLDomain

    gateway = start_gateway(certificates.configuration("wanted") + users())

    def connected(certificate: Path | None, **options: Any) -> Any:
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(certificates.ca))
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME, str(certificates.ca))
        if certificate is not None:
            domain.set_credentials(str(certificate), str(certificate), None)
        url = f"amqps://{options.pop('login', '')}localhost:{gateway.stomp_port}"
        return utils.BlockingConnection(url, timeout=LIMIT_S, ssl_domain=domain, **options)

    connection = connected(certificates.issue("alice"), allowed_mechs="EXTERNAL")
    connection.create_sender("q").send(Message(body="by certificate"))
    connection.close()
    connection = connected(None, login="alice:secret@", allowed_mechs="PLAIN")
    assert connection.create_receiver("q").receive(timeout=LIMIT_S).body == "by certificate"
    connection.close()
    with pytest.raises(ConnectionException):
        connected(certificates.issue("mallory"), allowed_mechs="EXTERNAL")
    with pytest.raises(ConnectionException):
        connected(None, allowed_mechs="EXTERNAL")


def test_the_command_line_clients_verify_whom_they_talk_to(
    start_gateway: StartGateway, certificates: Certificates
) -> None:
    gateway = start_gateway(certificates.configuration())
    url = f"tls://localhost:{gateway.stomp_port}"

    def penstock(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gateway", *arguments, "--url", url]
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    refused = penstock("send", "cli", "hello")
    assert refused.returncode == 4
    assert "its certificate is not trusted" in refused.stderr
    trusting = {"SSL_CERT_FILE": str(certificates.ca)}
    assert penstock("send", "cli", "hello", **trusting).returncode == 0
    assert "hello" in penstock("receive", "cli", "--count", "1", **trusting).stdout
