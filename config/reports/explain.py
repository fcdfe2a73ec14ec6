"""Finds the origin of each effective value of a destination, and what it overrode.

Layers, lowest to highest: built in, address settings by precedence, the listener's URI, the options behind the
destination's ``?``.  A consumer's own SUBSCRIBE overrides all of them; only a running gateway knows it.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from config.address_schema import ADDRESS
from config.destination_options import DestinationUri
from config.matching import DELAYS_ROLLBACK, REDELIVERY_DELAYS, TOPIC, AddressEntry, AddressMatcher, Setting
from config.model import ConnectionDefaults, ServerConfig
from config.permissions import Action, PermissionMap
from config.policies import DEFAULT_ADDRESS_SETTINGS, clamp_prefetch
from config.schema import leaves

BUILT_IN: Final = "default"

_ACTIONS: Final[tuple[Action, ...]] = (
    "read", "write", "create", "delete", "browse", "subscribe", "subscribe-durable", "unsubscribe", "export",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of one origin: dotted attribute path of AddressSettings -> value and place."""

    values: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Explained:
    """One effective value.  key: as in YAML.  overrode: values below it, nearest first, the default last."""

    key: str
    value: str
    source: str
    overrode: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All about a destination.  left_out: matching entries that do not apply, because another of their group does.

    permissions: action -> groups; empty if everybody may do everything.
    """

    values: tuple[Explained, ...]
    left_out: tuple[str, ...]
    permissions: Mapping[str, tuple[str, ...]]

    def document(self, what: str, asked: Sequence[str] = ()) -> dict[str, Any]:
        """Return it as JSON values.  what: the object explained.  asked: what its connection asked for, in words."""
        return {
            "what": what,
            "settings": {
                each.key: {
                    "value": each.value,
                    "source": each.source,
                    "overrode": [{"value": value, "source": source} for value, source in each.overrode],
                }
                for each in self.values
            },
            "left_out": list(self.left_out),
            "asked": list(asked),
            "permissions": {action: list(groups) for action, groups in self.permissions.items()},
        }


def explain(
    config: ServerConfig,
    kind: int,
    name: str,
    listener: tuple[str, ConnectionDefaults] | None = None,
    options: DestinationUri | None = None,
    above: Sequence[Layer] = (),
    connection: tuple[int, ConnectionDefaults] | None = None,
) -> Explanation:
    """Return the origin of each effective value of a destination.

    kind: QUEUE or TOPIC.  listener: where a connection came in, as (key of the listener, its defaults).
    connection: a running one, as (its number, settings of its listener's URI and its own), instead of a listener.
    above: settings of a running consumer itself, lowest first.
    """
    matcher = AddressMatcher(config.addresses)
    layers = [_entry_layer(entry) for entry in matcher.matching(kind, name)]
    if listener is not None:
        layers.append(_listener_layer(*listener, config.sources.get(f"listeners.{listener[0]}", BUILT_IN)))
    if connection is not None:
        layers.append(_connection_layer(*connection))
    if options is not None:
        layers.append(Layer(_own_values(kind, options)))
    layers.extend(above)
    return Explanation(
        tuple(_explained(layers)),
        tuple(_left_out_words(entry) for entry in matcher.left_out(kind, name)),
        _permissions(config, kind, name),
    )


def _entry_layer(entry: AddressEntry) -> Layer:
    return Layer(
        {path: Setting(value, entry.sources.get(path, entry.pattern.text)) for path, value in entry.values.items()}
    )


def _listener_layer(key: str, defaults: ConnectionDefaults, source: str) -> Layer:
    return Layer(
        {
            path: Setting(value, f"{defaults.sources.get(path, path)} of listeners.{key}, {source}")
            for path, value in defaults.values.items()
        }
    )


def _connection_layer(number: int, defaults: ConnectionDefaults) -> Layer:
    return Layer(
        {
            path: Setting(value, f"{defaults.sources.get(path, path)}, of connection {number}")
            for path, value in defaults.values.items()
        }
    )


def _own_values(kind: int, options: DestinationUri) -> dict[str, Setting]:
    source = "the destination's own options"
    own = options.consumer
    values = {path: Setting(value, source) for path, value in own.settings.items()}
    if own.prefetch is not None:
        values.update(prefetch_values(kind, own.prefetch, bool(own.subscription_name), own.is_browser, source))
    if own.is_exclusive is not None:
        values["queue.exclusive_consumer"] = Setting(own.is_exclusive, source)
    return values


def prefetch_values(kind: int, prefetch: int, is_durable: bool, is_browser: bool, source: str) -> dict[str, Setting]:
    """Return the settings that a consumer's own prefetch overrides, with its value.  is_durable: of a topic."""
    setting = Setting(clamp_prefetch(prefetch), source)
    if kind == TOPIC:
        return {f"prefetch.{'durable_topic' if is_durable else 'topic'}_prefetch": setting}
    if is_browser:
        return {"prefetch.queue_browser_prefetch": setting}
    return {"prefetch.queue_prefetch": setting, "prefetch.non_persistent_queue_prefetch": setting}


def _explained(layers: Sequence[Layer]) -> list[Explained]:
    found: list[Explained] = []
    for key, leaf in leaves(ADDRESS).items():
        default = Setting(operator.attrgetter(leaf.path)(DEFAULT_ADDRESS_SETTINGS), BUILT_IN)
        history = [default, *(layer.values[leaf.path] for layer in layers if leaf.path in layer.values)]
        if leaf.path == DELAYS_ROLLBACK and len(history) == 1:
            history.extend(_waiting_rollback(layers))
        value, *overrode = reversed(history)
        found.append(
            Explained(
                key,
                leaf.kind.show(value.value),
                value.source,
                tuple((leaf.kind.show(setting.value), setting.source) for setting in overrode),
            )
        )
    return found


def _waiting_rollback(layers: Sequence[Layer]) -> list[Setting]:
    """Return the setting for rollbacks that follows from a configured delay."""
    for layer in reversed(layers):
        for path in sorted(REDELIVERY_DELAYS & layer.values.keys()):
            return [Setting(True, f"follows from a delay, {layer.values[path].source}")]
    return []


def _left_out_words(entry: AddressEntry) -> str:
    return f"{entry.pattern.text} at {entry.place}: another entry of its group is more specific, and only one applies"


def _permissions(config: ServerConfig, kind: int, name: str) -> dict[str, tuple[str, ...]]:
    permissions = PermissionMap(config.permissions)
    if permissions.is_open:
        return {}
    return {action: tuple(sorted(permissions.groups_for(action, kind, name))) for action in _ACTIONS}
