"""A connection's defaults applied to one of its subscriptions, in every protocol.

Lowest to highest: address settings, listener URI, the connection's own options, the subscription's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from config.model import ConnectionDefaults
from engine.values.options import SubscribeOptions

WINDOW_PATH: Final = "flow.consumer_window_size_bytes"
RATE_PATH: Final = "flow.consumer_max_rate_per_second"
REDELIVERY_PATH: Final = "redelivery."


def with_defaults(options: SubscribeOptions, defaults: ConnectionDefaults, is_topic: bool) -> SubscribeOptions:
    """Return ``options``, completed with the connection's defaults.

    Switches (exclusive, retroactive) have no defaults here, because the options cannot tell off from absent.
    """
    values = defaults.values
    pending_limit = options.pending_limit
    if not pending_limit and is_topic:
        pending_limit = defaults.maximum_pending_message_limit
    if not values and pending_limit == options.pending_limit:
        return options
    prefetch = options.prefetch
    if prefetch is None:
        prefetch = _whole(values, _prefetch_path(options, is_topic))
    window_bytes = options.window_bytes
    if window_bytes is None:
        window_bytes = _whole(values, WINDOW_PATH)
    rate = options.rate
    if rate is None:
        rate = _whole(values, RATE_PATH)
    redelivery = MappingProxyType({**redelivery_in(values), **options.redelivery})
    return replace(
        options,
        prefetch=prefetch,
        window_bytes=window_bytes,
        rate=rate,
        pending_limit=pending_limit,
        redelivery=redelivery,
    )


def redelivery_in(values: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of RedeliveryPolicy among attribute paths of AddressSettings."""
    return {
        path.removeprefix(REDELIVERY_PATH): value for path, value in values.items() if path.startswith(REDELIVERY_PATH)
    }


def _prefetch_path(options: SubscribeOptions, is_topic: bool) -> str:
    if options.is_browser:
        return "prefetch.queue_browser_prefetch"
    if not is_topic:
        return "prefetch.queue_prefetch"
    return "prefetch.durable_topic_prefetch" if options.is_durable else "prefetch.topic_prefetch"


def _whole(values: Mapping[str, object], path: str) -> int | None:
    value = values.get(path)
    assert value is None or isinstance(value, int), f"{path} is {value!r}"
    return value
