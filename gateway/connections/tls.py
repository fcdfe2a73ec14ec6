"""TLS: the gateway's certificate, also a renewed one, and the user in a client's certificate."""

from __future__ import annotations

import logging
import os
import ssl
import stat
from typing import Any, Final

from config.errors import ConfigError, Problem
from config.loader import place_of
from config.model import ServerConfig

log: Final = logging.getLogger("penstock.listener")


class ServerTls:
    """The TLS of all listeners.  context: for the next connection, None without a certificate.

    Files that are replaced while the gateway runs (a renewed certificate) hold for connections from then on.
    Raises: ConfigError that names the key and the file.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._seen = self._stamps()
        self.context = server_context(config)

    def check(self) -> None:
        """Read the files again if one of them has changed.  Unusable ones are logged and change nothing."""
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self.context = server_context(self._config)
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _require_readable(config, "tls.certificate", tls.certificate)
    if tls.key:
        _require_readable(config, "tls.key", tls.key)
    asked: list[bool] = []

    def no_password() -> str:
        asked.append(True)
        return ""

    try:
        context.load_cert_chain(tls.certificate, tls.key or None, no_password)
    except ssl.SSLError as error:
        raise _unusable(config, error, is_encrypted=bool(asked)) from None
    if tls.client_ca:
        _require_readable(config, "tls.client-ca", tls.client_ca)
        try:
            context.load_verify_locations(tls.client_ca)
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
    for name, endpoint in (("stomp", listeners.stomp), ("amqp", listeners.amqp), ("http", listeners.http)):
        if endpoint is not None and endpoint.is_tls():
            raise _problem(config, f"listeners.{name}", f"'{endpoint}' needs tls.certificate")
    for key, value in (("tls.key", config.tls.key), ("tls.client-ca", config.tls.client_ca)):
        if value:
            raise _problem(config, key, f"{value!r} has no effect without tls.certificate")


def _require_readable(config: ServerConfig, key: str, path: str) -> None:
    """Raises: ConfigError.  A FIFO or a device could keep the event loop waiting: the files are read on its thread."""
    try:
        is_regular = stat.S_ISREG(os.stat(path).st_mode)
        if is_regular:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            os.close(descriptor)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise _problem(config, key, f"{path!r} cannot be read: {reason}") from None
    if not is_regular:
        raise _problem(config, key, f"{path!r} cannot be read: it is not a regular file")


def _unusable(config: ServerConfig, error: ssl.SSLError, is_encrypted: bool) -> ConfigError:
    tls = config.tls
    path = tls.key or tls.certificate
    key = "tls.key" if tls.key else "tls.certificate"
    if is_encrypted:
        return _problem(config, key, f"{path!r} holds an encrypted key; allowed is one that needs no password")
    if error.reason == "KEY_VALUES_MISMATCH":
        return _problem(config, key, f"{path!r} is not the key of the certificate in {tls.certificate!r}")
    if _holds_certificate(tls.certificate):
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
