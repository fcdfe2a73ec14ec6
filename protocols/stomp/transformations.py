"""The header ``transformation``: how a body stands for a JMS message that is neither text nor bytes.

Source: ActiveMQ's frame translators (semantics.md 2.2).  There the broker turns the body into an object; here it stays
the text that came, and the header, which every receiver gets, says how to read it.
"""

from __future__ import annotations

from typing import Final

BYTES_TRANSFORMATION: Final = "jms-byte"
_MAPS: Final = frozenset(("jms-map-xml", "jms-map-json"))
_EITHER: Final = frozenset(("jms-xml", "jms-json"))  # a map or an object, by the kind of message


def transformation_error(headers: dict[str, str], has_length: bool) -> str:
    """Return why a SEND's transformation is not done, "" if all is well; ActiveMQ sends the text on all the same.

    has_length: with a content-length the body is bytes, whatever is to be made of it.
    """
    name = headers.get("transformation", "")
    if not name or has_length or name == BYTES_TRANSFORMATION or name in _MAPS or name in _EITHER:
        return ""
    if name.startswith("jms-object-"):
        return f"{name} needs Java; allowed are jms-map-json, jms-map-xml and jms-byte"
    return f"{name[:80]} is not known; allowed are jms-map-json, jms-map-xml and jms-byte"
