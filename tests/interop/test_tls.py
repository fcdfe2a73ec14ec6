"""TLS with real clients: on the port of what is plain, alone at a port, and with clients' certificates."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from config.scram import hash_password
from gateway.process import exit_codes
from tests.support.process.certificates import Certificates
from tests.support.process.command import penstock
from tests.support.process.gateway_process import ROOT, GatewayProcess, StartGateway
from tests.support.process.stomp_py import Connect
from tests.support.process.waiting import wait_until

LIMIT_S = 60.0
READ_BYTES = 1 << 16
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


def test_a_large_message_goes_through_tls(
    start_gateway: StartGateway, connect: Connect, certificates: Certificates
) -> None:
    gateway = start_gateway(certificates.configuration())
    gateway.stomp_host = "localhost"
    client = connect("1.2", gateway, ca_certs=str(certificates.ca))
    client.subscribe("/queue/tls")
    body = "x" * 3_000_000
    client.send("/queue/tls", body)
    assert client.message().body == body
    client.close()


def test_whoever_says_nothing_is_let_go(start_gateway: StartGateway, certificates: Certificates) -> None:
    limits = "".join(f"{name}:\n  limits:\n    connect-time-ms: 300\n" for name in ("stomp", "amqp", "openwire"))
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


def answer(url: str, context: ssl.SSLContext | None) -> bytes | None:
    """Return what the URL answers, None if there is no HTTP answer."""
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=LIMIT_S) as response:
            return bytes(response.read())
    except (OSError, HTTPException):
        return None


def test_http_has_tls_on_the_same_port(start_gateway: StartGateway, certificates: Certificates) -> None:
    gateway = start_gateway(certificates.configuration())
    port = urlsplit(gateway.http_url).port
    assert answer(f"http://localhost:{port}/healthz", None) == b"ok\n"
    assert answer(f"https://localhost:{port}/healthz", certificates.client_context()) == b"ok\n"
    assert answer(f"https://localhost:{port}/healthz", ssl.create_default_context()) is None, "an unknown authority"


def test_https_takes_nothing_else(start_gateway: StartGateway, certificates: Certificates) -> None:
    gateway = start_gateway(certificates.configuration("required"))
    gateway.terminate()
    gateway.http_scheme = "https"
    gateway.start()
    assert gateway.http_url.startswith("https://127.0.0.1:")
    page = f"{gateway.http_url}/healthz"
    assert answer(page, certificates.client_context(certificates.issue("carol"))) == b"ok\n"
    assert answer(page, certificates.client_context()) is None
    assert answer(page.replace("https", "http"), None) is None


async def test_a_websocket_goes_through_tls(start_gateway: StartGateway, certificates: Certificates) -> None:
    gateway = start_gateway(certificates.configuration("wanted") + users())
    url = gateway.http_url.replace("http://", "wss://")
    for name, expected in (("alice", "CONNECTED"), ("mallory", "ERROR")):
        context = certificates.client_context(certificates.issue(name))
        async with aiohttp.ClientSession() as session, session.ws_connect(url, ssl=context) as socket:
            await socket.send_bytes(CONNECT)
            assert (await socket.receive_str(timeout=LIMIT_S)).startswith(expected)


def test_a_renewed_certificate_is_served_and_ends_no_connection(
    start_gateway: StartGateway, certificates: Certificates, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.pem"
    file.write_bytes(certificates.gateway.read_bytes())
    gateway = start_gateway(f"tls: {{certificate: {file}}}\n")
    gateway.stomp_host = "localhost"
    client = connect("1.2", gateway, ca_certs=str(certificates.ca))
    client.subscribe("/queue/renewed")
    other = Certificates(tmp_path)
    renewed = tmp_path / "renewed.pem"
    renewed.write_bytes(other.gateway.read_bytes())
    renewed.rename(file)
    wait_until(lambda: is_taken(gateway, other.client_context()), "the renewed certificate")
    assert not is_taken(gateway, certificates.client_context())
    client.send("/queue/renewed", "still here")
    assert client.message().body == "still here"


def test_external_is_offered_to_who_has_a_certificate(start_gateway: StartGateway, certificates: Certificates) -> None:
    utils: Any = pytest.importorskip("proton.utils", reason="needs python-qpid-proton (pip builds it from source)")
    from proton import SSL, ConnectionException, Message, SSLDomain

    if not SSL.present():
        pytest.skip("needs python-qpid-proton built with OpenSSL (Debian: libssl-dev and pkgconf)")
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
    https = gateway.http_url.replace("http://127.0.0.1", "https://localhost")

    refused = penstock("send", "cli", "hello", "--url", url)
    assert refused.returncode == 4
    assert "its certificate is not trusted" in refused.stderr
    refused = penstock("stat", "--http", https)
    assert refused.returncode == 4
    assert f"cannot reach {https}: its certificate is not trusted" in refused.stderr
    trusting = {"SSL_CERT_FILE": str(certificates.ca)}
    assert penstock("send", "cli", "hello", "--url", url, **trusting).returncode == 0
    assert "cli" in penstock("stat", "--http", https, **trusting).stdout
    assert "hello" in penstock("receive", "cli", "--count", "1", "--url", url, **trusting).stdout


def test_the_command_line_client_notices_the_end_of_its_gateway(
    start_gateway: StartGateway, certificates: Certificates
) -> None:
    gateway = start_gateway(certificates.configuration())
    command = [sys.executable, "-m", "gateway", "receive", "cli", "--follow"]
    command += ["--url", f"tls://localhost:{gateway.stomp_port}"]
    environment = {**os.environ, "SSL_CERT_FILE": str(certificates.ca)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as receiver:
        try:
            wait_until(lambda: len(gateway.get_json("/api/stat")["consumers"]) == 1, "it subscribes")
            gateway.kill9()
            _, said = receiver.communicate(timeout=LIMIT_S)
        finally:
            receiver.kill()
    assert receiver.returncode == exit_codes.UNREACHABLE
    assert "lost the connection" in said


class TlsOctets:
    """A client that decides itself when it looks at what has come.

    With an SSLSocket an answer may come before its close_notify is sent, and then the shutdown fails.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._incoming.write(plain.recv(READ_BYTES))
        self._flush()

    def send_and_close(self, octets: bytes) -> None:
        """Send octets, and that no more will come, before anything else is read."""
        self._tls.write(octets)
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._flush()

    def read_to_the_end(self) -> bytes:
        answers = bytearray()
        while True:
            try:
                octets = self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                came = self._plain.recv(READ_BYTES)
                if not came:
                    return bytes(answers)
                self._incoming.write(came)
                continue
            except ssl.SSLZeroReturnError:
                return bytes(answers)
            if not octets:
                return bytes(answers)
            answers += octets

    def _flush(self) -> None:
        self._plain.sendall(self._outgoing.read())


def test_a_client_that_sends_no_more_gets_what_it_is_owed(
    start_gateway: StartGateway, certificates: Certificates
) -> None:
    count = 2000
    gateway = start_gateway(certificates.configuration())
    send = "SEND\ndestination:/queue/half\npersistent:true\nreceipt:{}\n\nx\0"
    with socket.create_connection((gateway.stomp_host, gateway.stomp_port), LIMIT_S) as plain:
        client = TlsOctets(plain, certificates.client_context())
        client.send_and_close(CONNECT + "".join(send.format(number) for number in range(count)).encode())
        answers = client.read_to_the_end()
    assert answers.count(b"RECEIPT\n") == count
    assert b"ERROR" not in answers
