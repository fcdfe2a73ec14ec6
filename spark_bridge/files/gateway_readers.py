"""What a reader elsewhere says to a running gateway: how far it is, so that retention waits, or waits no longer."""

from __future__ import annotations

from typing import Final

from engine.store.read.export_watermarks import EXPORT, STREAM, Watermark
from engine.store.read.leases import reader_elsewhere
from spark_bridge.errors import LakeError
from spark_bridge.files.gateway_client import Answer, GatewayClient

PLACE: Final = "/api/store/readers"
TOO_OLD: Final = "it is one of an older version, which does not learn how far readers elsewhere are"


def begin(client: GatewayClient, store_id: str, mark: Watermark) -> None:
    """Say that a reader is at this position, whatever was known before.  Raises: LakeError."""
    asked = _described(store_id, mark) | {"destination": str(mark.chosen), "has_messages": mark.has_messages}
    answer = client.post(PLACE, asked)
    if answer.status != 200:
        raise _refused(client, answer)


def advance(client: GatewayClient, store_id: str, mark: Watermark) -> None:
    """Say that a reader has gone on; if it was forgotten meanwhile, it begins here.  Raises: LakeError."""
    answer = client.post(f"{PLACE}/advance", _described(store_id, mark))
    if answer.status == 404:
        begin(client, store_id, mark)
    elif answer.status != 200:
        raise _refused(client, answer)


def _described(store_id: str, mark: Watermark) -> dict[str, object]:
    return {
        "store": store_id,
        "kind": STREAM if mark.is_stream else EXPORT,
        "reader": reader_elsewhere(mark.reader),
        "to_offset": mark.to_offset,
    }


def _refused(client: GatewayClient, answer: Answer) -> LakeError:
    reason = TOO_OLD if answer.status in (404, 405) else answer.detail()
    return LakeError(f"{client.title} does not note how far this reader is: it answers {answer.status}: {reason}")
