"""WireFormatInfo: what both sides agree on before anything else.

Each flag is agreed only if both sides want it, and numbers are the lesser of both.  We want none of the flags, so every
client writes the loose form: uncached, without stack traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from protocols import map_message as words
from protocols.errors import FrameError, UnsupportedVersion
from protocols.map_message import Map, Typed
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.mapping.exceptions import JAVAX, package_for
from protocols.openwire.wire.commands import WireFormatInfo
from protocols.openwire.wire.layouts import LOWEST_VERSION, MAGIC, VERSION
from protocols.openwire.wire.property_map import read_map, write_map

INFO_BYTES_MAX: Final = 64 * 1024  # of a client's WireFormatInfo
INITIAL_DELAY_MS: Final = 10_000
INACTIVITY_LEAST_MS: Final = 500  # a client that asks for a shorter time gets this one: thousands may ask
INACTIVITY: Final = "MaxInactivityDuration"


@dataclass(slots=True, eq=False)
class Terms:
    """The agreed terms of one connection.

    inactivity_ms: of silence, after which a side gives up; 0 for never.  package: of JMS' exceptions.
    provider: the client's name and version.
    """

    version: int = VERSION
    inactivity_ms: int = 0
    package: str = JAVAX
    provider: str = ""


def own_info(settings: OpenWireSettings) -> WireFormatInfo:
    """Return ours."""
    values: Map = {
        "TightEncodingEnabled": Typed(words.BOOLEAN, False),
        "CacheEnabled": Typed(words.BOOLEAN, False),
        "StackTraceEnabled": Typed(words.BOOLEAN, False),
        "TcpNoDelayEnabled": Typed(words.BOOLEAN, True),
        "SizePrefixDisabled": Typed(words.BOOLEAN, False),
        "CacheSize": Typed(words.INT, 0),
        INACTIVITY: Typed(words.LONG, settings.idle_time_ms),
        "MaxInactivityDurationInitalDelay": Typed(words.LONG, INITIAL_DELAY_MS),  # so spelt
        "MaxFrameSize": Typed(words.LONG, settings.frame_bytes),
        "ProviderName": Typed(words.STRING, settings.server),
    }
    return WireFormatInfo(MAGIC, VERSION, write_map(values))


def agree(info: WireFormatInfo, settings: OpenWireSettings, terms: Terms) -> None:
    """Set the terms that follow from the client's.  Raises: FrameError, UnsupportedVersion."""
    if info.magic != MAGIC:
        raise FrameError("a WireFormatInfo does not begin with ActiveMQ")
    values = read_map(info.marshalled_properties or b"\0\0\0\0")
    version = _text(values, "ProviderVersion")
    terms.provider = " ".join(word for word in (_text(values, "ProviderName"), version) if word)
    if info.version < LOWEST_VERSION:
        raise UnsupportedVersion(
            f"the client {terms.provider or 'without a name'} speaks OpenWire {info.version}; supported are "
            f"{LOWEST_VERSION} and above (ActiveMQ 5.6)"
        )
    terms.version = min(info.version, VERSION)
    terms.package = package_for(version)
    typed = values.get(INACTIVITY)
    asked_ms = typed.value if typed is not None and isinstance(typed.value, int) else 0
    agreed_ms = min(asked_ms, settings.idle_time_ms)
    terms.inactivity_ms = max(agreed_ms, INACTIVITY_LEAST_MS) if agreed_ms > 0 else 0


def _text(values: Map, name: str) -> str:
    typed = values.get(name)
    return str(typed.value)[:200] if typed is not None and typed.kind == words.STRING else ""
