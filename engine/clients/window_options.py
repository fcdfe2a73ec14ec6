"""Makes the window of a new consumer from its options and the settings of its address."""

from __future__ import annotations

from config.policies import AddressSettings, clamp_prefetch
from engine.consumers.credit_window import CreditWindow
from engine.consumers.prefetch_window import Window
from engine.values.errors import InvalidOption
from engine.values.options import SubscribeOptions


def window_for(settings: AddressSettings, options: SubscribeOptions, is_topic: bool, is_settled: bool) -> Window:
    """Return the window of a new consumer; its options override the settings of the address.

    is_settled: messages are acknowledged on hand-over, so nothing is ever in flight, and only the rate limits it.
    Raises: InvalidOption for a prefetch below 0, or for 0 with automatic acknowledgement, where nothing would ever
    request the next message.
    """
    policy = settings.prefetch
    prefetch = options.prefetch
    if options.is_credited:
        return _limited(CreditWindow(), settings, options, is_settled)
    if prefetch is not None and prefetch < 0:
        raise InvalidOption(f"prefetchSize is {prefetch}; allowed is 0 (one at a time, on demand) and above")
    is_half = policy.top_up == "half"
    if prefetch is not None:
        window = Window(clamp_prefetch(prefetch), is_half)
    else:
        prefetch = clamp_prefetch(policy.default_for(is_topic, options.is_durable, options.is_browser))
        if is_topic or options.is_browser:
            window = Window(prefetch, is_half)
        else:
            other = clamp_prefetch(policy.non_persistent_queue_prefetch)
            window = Window(max(prefetch, other), is_half)
            if not is_settled:
                window.limit_kinds(prefetch, other)
    if prefetch == 0 and is_settled:
        raise InvalidOption(
            "prefetchSize 0 is pull: the next message comes after the last was acknowledged, and ack mode auto "
            "acknowledges nothing; use ack client or client-individual, or a prefetchSize of 1 and above"
        )
    return _limited(window, settings, options, is_settled)


def _limited(window: Window, settings: AddressSettings, options: SubscribeOptions, is_settled: bool) -> Window:
    """Limit a window's octets and rate."""
    flow = settings.flow
    window.limit_rate(flow.consumer_max_rate_per_second if options.rate is None else options.rate)
    if not is_settled:
        window.limit_bytes(flow.consumer_window_size_bytes if options.window_bytes is None else options.window_bytes)
    return window
