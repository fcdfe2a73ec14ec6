"""Certificates for tests of TLS: an authority, the gateway's own, and those of clients."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12


class Certificates:
    """ca: file of the authority that signed everything here."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)
        self.gateway = self.issue("localhost", "127.0.0.1")

    def issue(self, name: str, *identities: str) -> Path:
        """Return a file with a certificate of ``name`` and its key."""
        issued = self._authority.issue_cert(*(identities or (f"{name}@example.org",)), common_name=name)
        file = self.directory / f"{name}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(file)
        return file

    def client_context(self, certificate: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def trust_store(self, password: str) -> Path:
        """Return a key store of Java that holds the authority."""
        file = self.directory / "trust.p12"
        command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(self.ca), "-storetype", "PKCS12"]
        subprocess.run([*command, "-keystore", str(file), "-storepass", password], check=True, capture_output=True)
        return file

    def key_store(self, name: str, password: str) -> Path:
        """Return a key store with a new certificate of ``name`` and its key."""
        file = self.directory / f"{name}.p12"
        pem = self.issue(name).read_bytes()
        certificate = x509.load_pem_x509_certificates(pem)[0]
        key = serialization.load_pem_private_key(pem, None)
        assert isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)), "trustme makes one of these"
        encryption = serialization.BestAvailableEncryption(password.encode())
        file.write_bytes(pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, encryption))
        return file

    def encrypted_key(self, password: str) -> Path:
        """Return a file with the gateway's key under a password."""
        key = serialization.load_pem_private_key(self.gateway.read_bytes(), None)
        file = self.directory / "encrypted.pem"
        encryption = serialization.BestAvailableEncryption(password.encode())
        file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
        return file

    def configuration(self, client_certificate: str = "") -> str:
        """Return the lines of penstock.yaml for TLS, with ``client_certificate`` also for clients' certificates."""
        lines = f"tls:\n  certificate: {self.gateway}\n"
        if client_certificate:
            lines += f"  client-ca: {self.ca}\n  client-certificate: {client_certificate}\n"
        return lines
