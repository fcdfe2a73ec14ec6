"""Connection URIs: where to listen or to connect, and ActiveMQ's options behind the ``?``.

``tcp://h:61613?jms.prefetchPolicy.queuePrefetch=1&jms.redeliveryPolicy.maximumRedeliveries=3`` as a listener's URI
gives its connections defaults, which override the settings of their addresses.  The command-line clients accept the
same URIs, and ``failover:(...)`` with several.  Options of ActiveMQ's own client have no effect here, and a note says
so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from config.destination_options import CONSUMER, parse_query, with_delays
from config.model import HTTPS_SCHEME, NO_DEFAULTS, TLS_SCHEME, ConnectionDefaults, Endpoint
from config.options import Option, OptionError, unknown_option
from config.sources.uri_options import FAILOVER, OPTIONS
from config.values import JsonSchema, Kind

ACTIVEMQ: Final = "activemq."  # before a consumer's option in a header of SUBSCRIBE

# Path of a setting -> the consumer's option that sets it to the same value.
_NAMES: Final[Mapping[str, str]] = {
    path: option.name
    for option in CONSUMER.values()
    if option.status == "honoured"
    for path in option.values(option.example)
    if "." in path and option.name != "collisionAvoidanceFactor"
}

ADDRESSES_MAX: Final = 100  # of a failover URI

# Schemes of listeners that accept only TLS: ours, and those of ActiveMQ and of AMQP clients.
TLS_SCHEMES: Final = ("tls", "ssl", "stomp+ssl", "amqps", "amqp+ssl")

_FAILOVER: Final = re.compile(r"failover:(?://)?\(([^()]*)\)(?:\?(.*))?|failover:(?://)?([^()?]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ClientUri:
    """Where a client connects: one address or, of ``failover:(...)``, several.

    is_random: they may be tried in any order.
    """

    endpoints: tuple[Endpoint, ...]
    is_random: bool
    notes: tuple[str, ...]


def parse_endpoint(
    text: str, schemes: Iterable[str], scheme: str | None = None, default_port: int | None = None
) -> Endpoint:
    """Return one address with the settings of its options.

    schemes: the accepted ones; scheme: that of the result, None for the one written.
    default_port: for an address without a port; if None, that is an error.  Raises: ValueError.
    """
    parts = urlsplit(text)
    if parts.scheme not in tuple(schemes):
        raise ValueError
    host, port = parts.hostname, parts.port  # the latter raises on an invalid port
    if port is None:
        port = default_port
    if not host or port is None:
        raise ValueError("lacks a host or a port; port 0 picks a free one")
    if parts.username is not None or parts.path not in ("", "/") or parts.fragment:
        raise ValueError("has more than a host, a port and options")
    name = scheme or parts.scheme
    if not parts.query:
        return Endpoint(name, host, port)
    defaults, server_values, notes = _options(parts.query)
    return Endpoint(name, host, port, parts.query, defaults, server_values, notes)


def parse_client_uri(text: str, schemes: Iterable[str], default_port: int | None = None) -> ClientUri:
    """Return where to connect: ``tcp://h:61613``, ``failover:(tcp://a:61613,tcp://b:61613)?randomize=false``.

    Raises: ValueError.
    """
    if not text.startswith("failover:"):
        endpoint = parse_endpoint(text, schemes, default_port=default_port)
        return ClientUri((endpoint,), False, endpoint.notes)
    match = _FAILOVER.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise ValueError("has no list of addresses as in failover:(tcp://a:61613,tcp://b:61613)")
    listed = [part.strip() for part in (match[1] or match[3]).split(",")]
    if len(listed) > ADDRESSES_MAX:
        raise ValueError(f"has {len(listed)} addresses, at most {ADDRESSES_MAX} are allowed")
    endpoints = tuple(parse_endpoint(part, schemes, default_port=default_port) for part in listed)
    notes: list[str] = []
    is_random = True
    for name, value in parse_query(match[2] or ""):
        if name.startswith("nested."):
            endpoints = tuple(_with_option(endpoint, name.removeprefix("nested."), value) for endpoint in endpoints)
            continue
        if name in OPTIONS:
            endpoints = tuple(_with_option(endpoint, name, value) for endpoint in endpoints)
            continue
        option = FAILOVER.get(name)
        if option is None:
            raise unknown_option(name, FAILOVER)
        is_random = bool(option.values(value).get("randomize", is_random))
        if option.status == "listed":
            notes.append(_note(option))
    own = (note for endpoint in endpoints for note in endpoint.notes)
    return ClientUri(endpoints, is_random and len(endpoints) > 1, tuple(dict.fromkeys((*own, *notes))))


def subscribe_headers(defaults: ConnectionDefaults, is_topic: bool) -> dict[str, str]:
    """Return the headers of SUBSCRIBE that request the settings of a client's URI."""
    headers = {
        ACTIVEMQ + name: _shown(defaults.values[path]) for path, name in _NAMES.items() if path in defaults.values
    }
    prefetch = defaults.values.get("prefetch.topic_prefetch" if is_topic else "prefetch.queue_prefetch")
    if prefetch is not None:
        headers[ACTIVEMQ + "prefetchSize"] = _shown(prefetch)
    if defaults.is_retroactive and is_topic:
        headers[ACTIVEMQ + "retroactive"] = "true"
    if defaults.is_exclusive and not is_topic:
        headers[ACTIVEMQ + "exclusive"] = "true"
    if defaults.maximum_pending_message_limit and is_topic:
        headers[ACTIVEMQ + "maximumPendingMessageLimit"] = str(defaults.maximum_pending_message_limit)
    return headers


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_option(endpoint: Endpoint, name: str, value: str) -> Endpoint:
    query = f"{endpoint.query}&{name}={value}" if endpoint.query else f"{name}={value}"
    defaults, server_values, notes = _options(query)
    return Endpoint(endpoint.scheme, endpoint.host, endpoint.port, query, defaults, server_values, notes)


def _options(query: str) -> tuple[ConnectionDefaults, Mapping[str, object], tuple[str, ...]]:
    settings: dict[str, object] = {}
    own: dict[str, Any] = {}
    server_values: dict[str, object] = {}
    sources: dict[str, str] = {}
    notes: list[str] = []
    for name, text in parse_query(query):
        option = OPTIONS.get(name)
        if option is None:
            raise unknown_option(name, OPTIONS)
        for path, value in option.values(text).items():
            if path.startswith("server."):
                server_values[path.removeprefix("server.")] = value
            elif "." in path:
                settings[path] = value
                sources[path] = name
            else:
                own[path] = value
        if option.status == "listed":
            notes.append(_note(option))
    with_delays(settings)
    if not settings and not own:
        return NO_DEFAULTS, MappingProxyType(server_values), tuple(notes)
    defaults = ConnectionDefaults(MappingProxyType(settings), MappingProxyType(sources), **own)
    return defaults, MappingProxyType(server_values), tuple(notes)


def _note(option: Option) -> str:
    return f"{option.name} has no effect: {option.text}"


def _listener_scheme(text: str) -> str | None:
    """Return the scheme of a listener that accepts only TLS, None for one that does not."""
    scheme = text.partition(":")[0].lower()
    return TLS_SCHEME if scheme in TLS_SCHEMES else HTTPS_SCHEME if scheme == HTTPS_SCHEME else None


class ListenerUri(Kind):
    """``scheme://host:port?options``; the first of ``schemes`` is shown."""

    __slots__ = ("_example", "_has_options", "_schemes")

    def __init__(self, example: str, *schemes: str, has_options: bool = True) -> None:
        self._example = example
        self._schemes = schemes
        self._has_options = has_options

    @property
    def allowed(self) -> str:
        *others, last = [f"{scheme}://" for scheme in self._schemes]
        schemes = f"{', '.join(others)} or {last}" if others else last
        return f"{schemes}HOST:PORT as in {self._example}"

    def parse(self, text: str) -> Endpoint:
        if not self._has_options and "?" in text:
            raise ValueError("has options, which only messaging listeners have")
        try:
            return parse_endpoint(text, self._schemes, _listener_scheme(text) or self._schemes[0])
        except OptionError as error:
            raise ValueError(f"has an option that cannot be accepted: {error}") from None

    def show(self, value: object) -> str:
        assert isinstance(value, Endpoint), f"a listener is {type(value)}"
        return f"{value}?{value.query}" if value.query else str(value)


class OptionalListenerUri(Kind):
    """The same, or null for no listener."""

    __slots__ = ("_uri",)

    takes_null: ClassVar[bool] = True

    def __init__(self, example: str, *schemes: str) -> None:
        self._uri = ListenerUri(example, *schemes)

    @property
    def allowed(self) -> str:
        return f"{self._uri.allowed}, or null for no listener"

    def parse(self, text: str) -> Endpoint | None:
        return None if text in ("null", "~") else self._uri.parse(text)

    def show(self, value: object) -> str:
        return "null" if value is None else self._uri.show(value)

    def json_schema(self) -> JsonSchema:
        return {"type": ["string", "null"]}
