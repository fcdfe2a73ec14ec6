"""What is wrong with certificates is said before anything listens, with the key and the file."""

from __future__ import annotations

import os
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from config.errors import ConfigError
from config.model import Endpoint, Listeners, ServerConfig, TlsConfig
from gateway.connections.tls import FILE_BYTES_MAX, ServerTls, common_name, context_of, read_files, server_context
from gateway.logins.login_check import LoginCheck
from tests.support.process.certificates import Certificates

ALERT = 21
HANDSHAKE_FAILURE = 40  # SSL 3 has no other word for it
PROTOCOL_VERSION = 70
INAPPROPRIATE_FALLBACK = 86
FALLBACK_SCSV = 0x5600


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def configured(**fields: object) -> ServerConfig:
    return ServerConfig(tls=TlsConfig(**{name: str(value) for name, value in fields.items()}))  # type: ignore[arg-type]


def refusal(config: ServerConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        server_context(config)
    return str(caught.value)


def test_without_a_certificate_there_is_no_tls() -> None:
    assert server_context(ServerConfig()) is None


def test_clients_are_asked_for_certificates_only_with_an_authority(certificates: Certificates) -> None:
    alone = server_context(configured(certificate=certificates.gateway))
    wanted = server_context(configured(certificate=certificates.gateway, client_ca=certificates.ca))
    required = server_context(
        configured(certificate=certificates.gateway, client_ca=certificates.ca, client_certificate="required")
    )
    assert alone is not None and alone.verify_mode == ssl.CERT_NONE
    assert wanted is not None and wanted.verify_mode == ssl.CERT_OPTIONAL
    assert required is not None and required.verify_mode == ssl.CERT_REQUIRED


def test_what_is_not_there_is_named(certificates: Certificates, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    for key, config in (
        ("tls.certificate", configured(certificate=missing)),
        ("tls.key", configured(certificate=certificates.gateway, key=missing)),
        ("tls.client-ca", configured(certificate=certificates.gateway, client_ca=missing)),
    ):
        assert refusal(config) == f"default: {key}: {str(missing)!r} cannot be read: no such file or directory"


def test_what_is_no_pem_is_named(certificates: Certificates, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("nothing of the kind")
    assert f"{str(text)!r} holds no certificate in PEM" in refusal(configured(certificate=text))
    config = configured(certificate=certificates.gateway, client_ca=text)
    assert f"tls.client-ca: {str(text)!r} holds no certificate in PEM" in refusal(config)
    config = configured(certificate=certificates.gateway, key=text)
    assert f"tls.key: {str(text)!r} holds no private key in PEM" in refusal(config)


def test_a_key_of_another_certificate_is_named(certificates: Certificates, tmp_path: Path) -> None:
    other_kind = tmp_path / "ed25519.key"
    other_kind.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    for other in (certificates.issue("other"), other_kind):
        text = refusal(configured(certificate=certificates.gateway, key=other))
        assert f"tls.key: {str(other)!r} is not the key of the certificate in {str(certificates.gateway)!r}" in text


def test_an_encrypted_key_is_refused_rather_than_asked_for(certificates: Certificates) -> None:
    key = certificates.encrypted_key("secret")
    text = refusal(configured(certificate=certificates.gateway, key=key))
    assert f"tls.key: {str(key)!r} holds an encrypted key" in text


def test_settings_that_need_a_certificate(certificates: Certificates) -> None:
    tls_only = Listeners(stomp=Endpoint("tls", "127.0.0.1", 0))
    assert "listeners.stomp: 'tls://127.0.0.1:0' needs tls.certificate" in refusal(ServerConfig(listeners=tls_only))
    assert "has no effect without tls.certificate" in refusal(configured(client_ca=certificates.ca))
    text = refusal(configured(certificate=certificates.gateway, client_certificate="required"))
    assert "needs tls.client-ca" in text


def test_a_certificate_names_a_user_only_where_there_is_one() -> None:
    anybody = LoginCheck(ServerConfig())
    assert anybody.user_named("carol") == "carol"
    verifier = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 43 + "=:" + "A" * 43 + "="
    users = LoginCheck(replace(ServerConfig(), users={"alice": (verifier,)}))
    assert (users.user_named("alice"), users.user_named("carol")) == ("alice", "")


def test_the_common_name_is_read_from_the_subject() -> None:
    assert common_name({"subject": ((("organizationName", "x"),), (("commonName", "alice"),))}) == "alice"
    assert common_name({"subject": ((("organizationName", "x"),),)}) == ""
    assert common_name(None) == ""


def test_changed_files_hold_for_the_next_connection(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file = tmp_path / "gateway.pem"
    file.write_bytes(certificates.gateway.read_bytes())
    tls = ServerTls(configured(certificate=file))
    first = tls.context()
    tls.check()
    assert tls.context() is first
    renewed = tmp_path / "renewed.pem"
    renewed.write_bytes(certificates.issue("renewed").read_bytes())
    renewed.rename(file)
    tls.check()
    second = tls.context()
    assert second is not None and second is not first
    assert f"connections get the certificate that is in {file} now" in caplog.text
    tls.check()
    assert tls.context() is second


@pytest.mark.parametrize("text", ["half a certificate", None])
def test_unusable_changes_leave_the_earlier_certificate(
    text: str | None, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "gateway.pem"
    file.write_bytes(certificates.gateway.read_bytes())
    tls = ServerTls(configured(certificate=file))
    first = tls.context()
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    for _ in range(3):
        tls.check()
    assert tls.context() is first
    assert caplog.text.count("changed files of TLS cannot be used") == 1
    assert str(file) in caplog.text


@pytest.mark.parametrize("key", ["certificate", "key", "client_ca"])
def test_what_is_no_regular_file_is_not_waited_for(
    key: str, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Opening a FIFO waits for its writer, and this is the thread of the event loop."""
    file = tmp_path / "it.pem"
    file.write_bytes((certificates.ca if key == "client_ca" else certificates.gateway).read_bytes())
    config = configured(**{"certificate": certificates.gateway, key: file})
    tls = ServerTls(config)
    first = tls.context()
    os.unlink(file)
    os.mkfifo(file)
    tls.check()
    assert tls.context() is first
    assert f"tls.{key.replace('_', '-')}: {str(file)!r} cannot be read: it is not a regular file" in caplog.text


@pytest.mark.parametrize("name", ["stomp", "amqp", "http"])
def test_a_listener_of_tls_alone_needs_a_certificate(name: str) -> None:
    endpoint = Endpoint("https" if name == "http" else "tls", "127.0.0.1", 1)
    listeners = {"stomp": Listeners(stomp=endpoint), "amqp": Listeners(amqp=endpoint), "http": Listeners(http=endpoint)}
    assert refusal(ServerConfig(listeners=listeners[name])).endswith(
        f"listeners.{name}: '{endpoint}' needs tls.certificate"
    )


def test_what_comes_in_place_of_a_file_after_it_was_read_is_not_opened(
    certificates: Certificates, tmp_path: Path
) -> None:
    """Between a check of a path and OpenSSL's own opening of it a FIFO could take its place."""
    paths = {key: tmp_path / f"{key}.pem" for key in ("certificate", "key", "client_ca")}
    for key, path in paths.items():
        path.write_bytes((certificates.ca if key == "client_ca" else certificates.gateway).read_bytes())
    config = configured(**paths)
    files = read_files(config)
    for path in paths.values():
        path.unlink()
        os.mkfifo(path)
    context = context_of(config, files)
    assert context.verify_mode == ssl.CERT_OPTIONAL
    assert len(context.get_ca_certs()) == 1


def test_copies_of_keys_do_not_stay(certificates: Certificates) -> None:
    config = configured(certificate=certificates.gateway, key=certificates.gateway)
    before = os.listdir("/proc/self/fd")
    assert server_context(config) is not None
    assert os.listdir("/proc/self/fd") == before


def test_a_file_without_an_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "sparse.pem"
    with file.open("wb") as sparse:
        sparse.truncate(FILE_BYTES_MAX + 1)
    assert f"{str(file)!r} has more than {FILE_BYTES_MAX} octets" in refusal(configured(certificate=file))


def hello(version: int, *suites: int) -> bytes:
    """Return the first record of a client that knows nothing newer than this version."""
    named = b"".join(suite.to_bytes(2, "big") for suite in suites)
    body = version.to_bytes(2, "big") + bytes(32) + b"\0" + len(named).to_bytes(2, "big") + named + b"\1\0"
    handshake = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + len(handshake).to_bytes(2, "big") + handshake


@pytest.mark.parametrize(
    ("octets", "alert"),
    [
        pytest.param(hello(0x0300, 0xC02B, 0xC02F, 0x002F), HANDSHAKE_FAILURE, id="SSL 3"),
        pytest.param(hello(0x0301, 0xC02B, 0xC02F, 0xC009, 0x002F), PROTOCOL_VERSION, id="TLS 1.0"),
        pytest.param(hello(0x0302, 0xC02B, 0xC02F, 0xC009, 0x002F), PROTOCOL_VERSION, id="TLS 1.1"),
        pytest.param(hello(0x0303, 0xC02B, 0xC02F, FALLBACK_SCSV), INAPPROPRIATE_FALLBACK, id="RFC 7507"),
    ],
)
def test_old_versions_are_refused_and_nobody_is_talked_into_one(
    certificates: Certificates, octets: bytes, alert: int
) -> None:
    context = server_context(configured(certificate=certificates.gateway))
    assert context is not None
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    there.write(octets)
    with pytest.raises(ssl.SSLError):
        context.wrap_bio(there, back, server_side=True).do_handshake()
    record = back.read()
    assert (record[0], record[-1]) == (ALERT, alert)
