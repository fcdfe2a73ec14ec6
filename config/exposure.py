"""Listeners that can be reached from other machines, and what they require."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from config.errors import ConfigError, Problem
from config.model import HTTPS_SCHEME, TLS_SCHEME, Endpoint, ServerConfig

_OPEN: Final = (
    "{} is open to the network, and no users are configured; use a loopback address "
    "(127.0.0.1, ::1, localhost), or add users with 'penstock user add NAME --config FILE'"
)
_PLAIN: Final = (
    "{} is open to the network without TLS: passwords are sent unencrypted; "
    "set tls.certificate, or put a TLS proxy in front of a loopback address"
)
_PLAIN_BESIDE_TLS: Final = (
    "{} is open to the network and accepts plain connections as well as TLS: clients without TLS send their passwords "
    "unencrypted; for TLS alone use {}"
)


def refuse_open_listeners(config: ServerConfig) -> None:
    """Raises: ConfigError that names each listener beyond loopback if nobody has to log in."""
    if config.checks_logins:
        return
    problems = [
        _problem(config.sources, name, _OPEN.format(endpoint))
        for name, endpoint in _beyond_loopback(_endpoints(config))
    ]
    if problems:
        raise ConfigError(problems)


def plain_passwords(config: ServerConfig) -> list[Problem]:
    """Return a note for each listener beyond loopback over which passwords are sent unencrypted."""
    if not config.checks_logins:
        return []
    return plain_listeners(_endpoints(config), bool(config.tls.certificate), config.sources)


def plain_listeners(
    endpoints: Mapping[str, Endpoint | None], has_tls: bool, sources: Mapping[str, str]
) -> list[Problem]:
    """Return the same for listeners by their names.  sources: where each was set, as in ServerConfig."""
    problems = []
    for name, endpoint in _beyond_loopback(endpoints):
        if not has_tls:
            problems.append(_problem(sources, name, _PLAIN.format(endpoint)))
        elif not endpoint.is_tls():
            tls_only = replace(endpoint, scheme=HTTPS_SCHEME if name == "http" else TLS_SCHEME)
            problems.append(_problem(sources, name, _PLAIN_BESIDE_TLS.format(endpoint, tls_only)))
    return problems


def _endpoints(config: ServerConfig) -> dict[str, Endpoint | None]:
    listeners = config.listeners
    return {"stomp": listeners.stomp, "amqp": listeners.amqp, "openwire": listeners.openwire, "http": listeners.http}


def _beyond_loopback(endpoints: Mapping[str, Endpoint | None]) -> Iterator[tuple[str, Endpoint]]:
    for name, endpoint in endpoints.items():
        if endpoint is not None and not is_loopback(endpoint.host):
            yield name, endpoint


def _problem(sources: Mapping[str, str], name: str, text: str) -> Problem:
    element = f"listeners.{name}"
    source, _, line = sources.get(element, "default").rpartition(":")
    if not source:
        source, line = line, "0"
    return Problem(source, int(line), element, text)


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach ``host``.  A name other than ``localhost`` could resolve to anything."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
