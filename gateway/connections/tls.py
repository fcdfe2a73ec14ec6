"""TLS: the gateway's certificate, also a renewed one, and the user in a client's certificate.

Each file is opened and read once, here.  OpenSSL takes names of files only, so it gets names of copies in memory: what
has come in place of a file since it was checked, a FIFO or half of a renewal, it does not see.
"""

from __future__ import annotations

import logging
import os
import ssl
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from config.errors import ConfigError, Problem
from config.loader import place_of
from config.model import ServerConfig
from gateway.connections.tls_stream import TlsInput

FILE_BYTES_MAX: Final = 4 * 1024 * 1024  # of a file of TLS: it is read on the thread of the event loop

log: Final = logging.getLogger("penstock.listener")


class ServerTls:
    """The TLS of all listeners.

    input: what all connections share.

    Files that are replaced while the gateway runs (a renewed certificate) hold for connections from then on.
    Raises: ConfigError that names the key and the file.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._seen = self._stamps()
        self.input = TlsInput()
        self._context = server_context(config)

    def context(self) -> ssl.SSLContext | None:
        """Return that of the next connection, None without a certificate."""
        return self._context

    def check(self) -> None:
        """Read the files again if one of them has changed.  Unusable ones are logged and change nothing."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._context = server_context(self._config)
        except ConfigError as error:
            log.warning("changed files of TLS cannot be used, connections get the earlier certificate: %s", error)
        else:
            log.info("connections get the certificate that is in %s now", self._config.tls.certificate)

    def _stamps(self) -> list[tuple[int, ...]]:
        """Return what tells versions of the files apart."""
        tls = self._config.tls
        return [_stamp(path) for path in (tls.certificate, tls.key, tls.client_ca) if path]


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def server_context(config: ServerConfig) -> ssl.SSLContext | None:
    """Return the TLS context of the listeners, None without a certificate.

    Raises: ConfigError that names the key and the file.
    """
    tls = config.tls
    if not tls.certificate:
        _refuse_without_certificate(config)
        return None
    return context_of(config, read_files(config))


def read_files(config: ServerConfig) -> dict[str, bytes]:
    """Return what the files of TLS hold, by their keys.  Raises: ConfigError."""
    tls = config.tls
    named = {"tls.certificate": tls.certificate, "tls.key": tls.key, "tls.client-ca": tls.client_ca}
    return {key: _read(config, key, path) for key, path in named.items() if path}


def context_of(config: ServerConfig, files: dict[str, bytes]) -> ssl.SSLContext:
    """files: of ``read_files``.  Raises: ConfigError."""
    with ExitStack() as copies:
        paths = {key: copies.enter_context(_copy(octets)) for key, octets in files.items()}
        return _context(config, paths)


def _context(config: ServerConfig, paths: dict[str, str]) -> ssl.SSLContext:
    tls = config.tls
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # a handshake in each record of a client
    asked: list[bool] = []

    def no_password() -> str:
        asked.append(True)
        return ""

    try:
        context.load_cert_chain(paths["tls.certificate"], paths.get("tls.key"), no_password)
    except ssl.SSLError as error:
        raise _unusable(config, error, paths["tls.certificate"], is_encrypted=bool(asked)) from None
    if tls.client_ca:
        try:
            context.load_verify_locations(paths["tls.client-ca"])
        except ssl.SSLError:
            raise _problem(config, "tls.client-ca", f"{tls.client_ca!r} holds no certificate in PEM") from None
        is_required = tls.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    elif tls.client_certificate == "required":
        raise _problem(config, "tls.client-certificate", "'required' needs tls.client-ca: their authority")
    return context


def common_name(certificate: dict[str, Any] | None) -> str:
    """Return the user in a verified certificate: the common name of its subject, "" for none."""
    for names in (certificate or {}).get("subject", ()):
        for key, value in names:
            if key == "commonName":
                return str(value)
    return ""


def _refuse_without_certificate(config: ServerConfig) -> None:
    listeners = config.listeners
    for name, endpoint in (
        ("stomp", listeners.stomp),
        ("amqp", listeners.amqp),
        ("openwire", listeners.openwire),
        ("http", listeners.http),
    ):
        if endpoint is not None and endpoint.is_tls():
            raise _problem(config, f"listeners.{name}", f"'{endpoint}' needs tls.certificate")
    for key, value in (("tls.key", config.tls.key), ("tls.client-ca", config.tls.client_ca)):
        if value:
            raise _problem(config, key, f"{value!r} has no effect without tls.certificate")


def _read(config: ServerConfig, key: str, path: str) -> bytes:
    """Raises: ConfigError.  A FIFO or a device could keep the event loop waiting: the files are read on its thread."""
    octets = None
    try:
        if stat.S_ISREG(os.stat(path).st_mode):  # opening a device may already have an effect
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    octets = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise _problem(config, key, f"{path!r} cannot be read: {reason}") from None
    if octets is None:
        raise _problem(config, key, f"{path!r} cannot be read: it is not a regular file")
    if len(octets) > FILE_BYTES_MAX:
        raise _problem(config, key, f"{path!r} has more than {FILE_BYTES_MAX} octets, which is the limit")
    return octets


@contextmanager
def _copy(octets: bytes) -> Iterator[str]:
    """Yield the name of a private copy: in memory where /proc can name it, elsewhere a file only its owner can read."""
    with ExitStack() as kept:
        if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
            memory = kept.enter_context(open(os.memfd_create("tls", os.MFD_CLOEXEC), "wb"))
            memory.write(octets)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}"
        else:
            file = kept.enter_context(tempfile.NamedTemporaryFile())
            file.write(octets)
            file.flush()
            yield file.name


def _unusable(config: ServerConfig, error: ssl.SSLError, certificate: str, is_encrypted: bool) -> ConfigError:
    """certificate: name of the copy."""
    tls = config.tls
    path = tls.key or tls.certificate
    key = "tls.key" if tls.key else "tls.certificate"
    if is_encrypted:
        return _problem(config, key, f"{path!r} holds an encrypted key; allowed is one that needs no password")
    # The second reason: the key is of another kind than the certificate's.
    if error.reason in ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
        return _problem(config, key, f"{path!r} is not the key of the certificate in {tls.certificate!r}")
    if _holds_certificate(certificate):
        return _problem(config, key, f"{path!r} holds no private key in PEM that can be used")
    return _problem(config, "tls.certificate", f"{tls.certificate!r} holds no certificate in PEM that can be used")


def _holds_certificate(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        return False
    return True


def _problem(config: ServerConfig, key: str, text: str) -> ConfigError:
    return ConfigError([Problem(*place_of(config.sources.get(key, "default")), key, text)])
