"""``penstock tls self-signed``: the gateway takes its certificate, and clients verify it once they are given it."""

from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from config.loader import load_config
from gateway.__main__ import main
from gateway.cli.config.tls import self_signed
from gateway.connections.tls import server_context
from gateway.process import exit_codes


def _made(folder: Path, *words: str) -> int:
    files = ["--certificate", str(folder / "c.pem"), "--key", str(folder / "k.pem")]
    return main(["tls", "self-signed", *files, *words])


def _handshake(folder: Path, name: str) -> None:
    """Do a handshake in memory with a client that trusts only this certificate.  Raises: ssl.SSLError."""
    config = folder / "penstock.yaml"
    config.write_text(f"tls: {{certificate: {folder / 'c.pem'}, key: {folder / 'k.pem'}}}\n")
    context = server_context(load_config([str(config)]))
    assert context is not None
    trusting = ssl.create_default_context(cafile=str(folder / "c.pem"))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(back, there, server_hostname=name)
    server = context.wrap_bio(there, back, server_side=True)
    sides: list[Any] = [client, server]
    while sides:
        side = sides.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            sides.append(side)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_client_that_has_it_connects_by_each_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert _made(tmp_path) == exit_codes.OK
    assert "SSL_CERT_FILE=" in capsys.readouterr().out
    _handshake(tmp_path, name)


def test_other_names_are_refused_by_clients(tmp_path: Path) -> None:
    assert _made(tmp_path, "--name", "gateway.example.org", "--name", "10.0.0.7") == exit_codes.OK
    _handshake(tmp_path, "gateway.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(tmp_path, "localhost")


def test_the_key_is_for_its_owner_alone_and_both_are_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _made(tmp_path, "--json", "--name", "*.example.org", "--days", "7") == exit_codes.OK
    said = json.loads(capsys.readouterr().out)
    assert stat.S_IMODE((tmp_path / "k.pem").stat().st_mode) == 0o600
    made = x509.load_pem_x509_certificate((tmp_path / "c.pem").read_bytes())
    assert said["names"] == ["*.example.org"]
    assert said["ends"] == made.not_valid_after_utc.isoformat()
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days == 7
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize("existing", ["c.pem", "k.pem"])
def test_files_that_exist_stay_and_nothing_is_half_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], existing: str
) -> None:
    (tmp_path / existing).write_text("mine")
    assert _made(tmp_path) == exit_codes.FAILED
    assert f"{existing} exists and stays as it is" in capsys.readouterr().err
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(existing, "mine")]


@pytest.mark.parametrize(
    "words",
    [
        ("--name", "a b"),
        ("--name", ""),
        ("--name", "localhost:8161"),
        ("--name", "größe"),
        ("--name", "x" * 64),
        ("--name", "a..b"),
        ("--days", "0"),
        ("--days", "826"),
    ],
)
def test_bad_arguments_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str]) -> None:
    assert _made(tmp_path, *words) == exit_codes.USAGE
    assert f"{words[0]} is " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_two_certificates_have_nothing_in_common() -> None:
    first, second = (self_signed(["localhost"], 1) for _ in range(2))
    assert first.key != second.key
    assert first.fingerprint != second.fingerprint
