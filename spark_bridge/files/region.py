"""The region of a bucket for which none was given."""

from __future__ import annotations

from typing import Final

from pyarrow import fs

DEFAULT_REGION: Final = "us-east-1"


def region_of(bucket: str, endpoint: str) -> str:
    """Ask Amazon, unless the bucket is elsewhere, where the region seldom matters.  Raises: OSError."""
    if endpoint:
        return DEFAULT_REGION
    found: str = fs.resolve_s3_region(bucket)
    return found
