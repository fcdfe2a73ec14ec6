"""A message rewritten for one subscription, with its connection's names of temporary destinations.

Subscriptions whose messages need no change do not use this (``Subscription.is_plain``).
"""

from __future__ import annotations

from typing import Final

from engine.values.message import PLAIN, Message, annotation, unescaped

_REPLY_TO: Final = b"\nreply-to:"
_REMOTE: Final = b"/remote-temp-"


def with_own_reply_to(message: Message, aliases: dict[str, str]) -> Message:
    """Return a message in STOMP's encoding, with its receiver's own name in the reply-to.

    aliases: real name -> own name, as headers write them.
    """
    headers = message.headers
    start = (b"\n" + headers).find(_REPLY_TO + _REMOTE)
    if start < 0:
        return message
    value = start + len(_REPLY_TO) - 1
    end = headers.index(b"\n", value)
    own = aliases.get(unescaped(headers[value:end].decode()))
    if own is None:
        return message
    return with_headers(message, headers[:start] + annotation("reply-to", own) + headers[end + 1 :], message.body)


def with_headers(message: Message, headers: bytes, body: bytes, text_flag: int = 0) -> Message:
    """Return the same message with other content, ready for every version."""
    is_plain = b"\\" not in headers and b"\\" not in message.annotations
    flags = (message.flags & ~PLAIN) | (PLAIN if is_plain else 0) | text_flag
    return message.twin(flags, message.annotations, headers, body)
