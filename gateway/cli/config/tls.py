"""``penstock tls self-signed``: a certificate and its key, to try TLS before an authority has issued one."""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import json
import os
import shlex
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.cli.shared.parsers import CommandError, Subparsers, add_json_argument
from gateway.process import exit_codes

if TYPE_CHECKING:
    from cryptography import x509

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
DAYS_DEFAULT: Final = 90
DAYS_MOST: Final = 825  # clients of Apple refuse certificates that hold longer
EARLIER: Final = datetime.timedelta(hours=1)  # for clients whose clock is slow
KEY_MODE: Final = 0o600
CERTIFICATE_MODE: Final = 0o644
HELP: Final = """\
Write a certificate that the gateway signs itself, and its private key, both in PEM.  Clients must be given the
certificate, because no authority vouches for it.  Files that exist stay as they are."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key in PEM.  fingerprint: SHA-256 of the certificate, as clients show it."""

    certificate: bytes
    key: bytes
    ends: datetime.datetime
    fingerprint: str


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("tls", help="make a certificate for a first try of TLS")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = actions.add_parser(
        "self-signed",
        help="write a self-signed certificate and its key",
        description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--name",
        metavar="NAME",
        action="append",
        default=[],
        help="host name or IP address by which clients reach the gateway; repeatable "
        f"(default: {', '.join(LOCAL_NAMES)} and the name of this machine)",
    )
    made.add_argument(
        "--days", type=int, default=DAYS_DEFAULT, help=f"how long it holds, 1 to {DAYS_MOST} (default: %(default)s)"
    )
    made.add_argument("--certificate", metavar="FILE", default="gateway.pem", help="to write (default: %(default)s)")
    made.add_argument("--key", metavar="FILE", default="gateway.key", help="to write (default: %(default)s)")
    add_json_argument(made)


def run(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.days <= DAYS_MOST:
        raise CommandError(f"--days is {arguments.days}; allowed is 1 to {DAYS_MOST}")
    certificate, key = Path(arguments.certificate), Path(arguments.key)
    names = list(dict.fromkeys(arguments.name or [*LOCAL_NAMES, socket.gethostname()]))
    issued = self_signed(names, arguments.days)
    _write_both(certificate, key, issued)
    if arguments.json:
        print(
            json.dumps(
                {
                    "certificate": str(certificate),
                    "key": str(key),
                    "names": names,
                    "ends": issued.ends.isoformat(timespec="seconds"),
                    "sha256": issued.fingerprint,
                }
            )
        )
        return exit_codes.OK
    trusted = f"SSL_CERT_FILE={shlex.quote(str(certificate))}"
    print(f"wrote {certificate} and {key} for {', '.join(names)}; the certificate ends on {issued.ends:%Y-%m-%d}")
    print(f"SHA-256 {issued.fingerprint}")
    print("in penstock.yaml:")
    print(f"  tls: {{certificate: {json.dumps(str(certificate))}, key: {json.dumps(str(key))}}}")
    print('  listeners: {stomp: "tls://127.0.0.1:61613", http: "https://127.0.0.1:8161"}')
    print("then, as a client:")
    print(f"  {trusted} penstock stat --http https://{_in_url(names[0])}:8161")
    print(f"  {trusted} penstock send --url tls://{_in_url(names[0])}:61613 /queue/orders hello")
    return exit_codes.OK


def self_signed(names: list[str], days: int) -> Issued:
    """Return a new certificate for these host names and IP addresses.  Raises: CommandError about a name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Penstock, self-signed")])
    ends = now + datetime.timedelta(days=days)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign")
        + ("encipher_only", "decipher_only"),
        False,
    )
    # No authority: who has this key cannot vouch for other names, even where clients trust the certificate.
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, **usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Issued(
        made.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        ends,
        made.fingerprint(hashes.SHA256()).hex(":").upper(),
    )


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    labels = name.removeprefix("*.").split(".")
    if len(name) > 253 or not all(_is_label(label) for label in labels):
        raise CommandError(f"--name is {name!r}; allowed is a host name in ASCII or an IP address, without a port")
    return x509.DNSName(name)


def _is_label(label: str) -> bool:
    inner = label.replace("-", "").replace("_", "")
    return len(label) <= 63 and inner.isascii() and inner.isalnum() and not label.startswith("-")


def _in_url(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _write_both(certificate: Path, key: Path, issued: Issued) -> None:
    """Write both files or none.  Raises: CommandError if one exists; OSError."""
    written: list[Path] = []
    try:
        for path, octets, mode in ((key, issued.key, KEY_MODE), (certificate, issued.certificate, CERTIFICATE_MODE)):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            written.append(path)
            with open(descriptor, "wb") as file:
                file.write(octets)
    except FileExistsError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise CommandError(
            f"{error.filename} exists and stays as it is; name another file", exit_codes.FAILED
        ) from None
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
