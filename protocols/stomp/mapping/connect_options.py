"""Settings of a CONNECT for its connection's subscriptions: ``activemq.`` headers, options of ActiveMQ's URIs.

``activemq.prefetchPolicy.queuePrefetch:1`` is ``?jms.prefetchPolicy.queuePrefetch=1`` of a JMS client.  It overrides
the listener's URI; destination options and headers of SUBSCRIBE override it.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from config.destination_options import with_delays
from config.model import ConnectionDefaults
from config.options import OptionError, unknown_option
from config.sources.uri_options import OPTIONS
from engine.values.errors import InvalidOption

ACTIVEMQ: Final = "activemq."
JMS: Final = "jms."
WARNINGS_MOST: Final = 3  # warnings about headers of one CONNECT; further ones are not reported

# Setters of ActiveMQ's ConnectionInfo that a CONNECT can reach in ActiveMQ; they are for its own clients.
_INTERNAL: Final = frozenset(
    ("clientMaster", "manageable", "faultTolerant", "failoverReconnect", "brokerMasterConnector")
)
# Set by other headers of CONNECT, or unknown before the login.
_ELSEWHERE: Final = {"clientID": "client-id", "userName": "login", "password": "passcode"}
_KNOWN: Final = tuple(
    ACTIVEMQ + name.removeprefix(JMS)
    for name, option in OPTIONS.items()
    if name.startswith(JMS) and option.status == "honoured"
)


def connection_defaults(
    headers: dict[str, str], listener: ConnectionDefaults, is_strict: bool
) -> tuple[ConnectionDefaults, list[str]]:
    """Return the connection's defaults, and warnings about headers without an effect.

    is_strict: these are errors.  Raises: InvalidOption.
    """
    settings: dict[str, object] = {}
    own: dict[str, Any] = {}
    sources: dict[str, str] = {}
    warnings: list[str] = []
    for header, text in headers.items():
        name = header.removeprefix(ACTIVEMQ)
        if not header.lower().startswith(ACTIVEMQ) or name in _INTERNAL:
            continue
        if name in _ELSEWHERE:
            raise InvalidOption(f"header {header} has no effect; use the header {_ELSEWHERE[name]}")
        option = OPTIONS.get(JMS + name)
        if option is None:
            if len(warnings) < WARNINGS_MOST:
                warnings.append(f"CONNECT has {str(unknown_option(repr(header[:80]), _KNOWN)).split(';')[0]}")
            continue
        try:
            found = option.values(text)
        except OptionError as error:
            raise InvalidOption(f"{ACTIVEMQ}{str(error).removeprefix(JMS)}") from None
        for path, value in found.items():
            if "." in path:
                settings[path] = value
                sources[path] = f"header {header} of CONNECT"
            else:
                own[path] = value
    if warnings and is_strict:
        raise InvalidOption(warnings[0])
    if not settings and not own:
        return listener, warnings
    merged = replace(
        listener,
        values=MappingProxyType({**listener.values, **with_delays(settings)}),
        sources=MappingProxyType({**listener.sources, **sources}),
        **own,
    )
    return merged, warnings
