"""What a URL of a lake says: ``s3://KEY:SECRET@BUCKET/PREFIX?region=...&endpoint_override=...&scheme=...`` and others.

The form is Arrow's (``pyarrow.fs.FileSystem.from_uri``), whose variables of the environment hold, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from configparser import ConfigParser, Error
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from spark_bridge.errors import TargetError

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
S3: Final = "s3"
SCHEMES: Final = (S3, "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
OF_S3: Final = ("region", "scheme", "endpoint_override")
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, slots=True)
class Place:
    """url: as it was given, for Arrow.  prefix: below the bucket, without slashes at its ends.  options: the query."""

    url: str
    scheme: str
    bucket: str
    prefix: str
    user: str
    password: str
    options: dict[str, str]

    def title(self) -> str:
        """Return the URL without credentials and options."""
        user = f"{self.user}@" if self.scheme.startswith("abfs") and self.user else ""  # a container
        return f"{self.scheme}://{user}{self.bucket}/{self.prefix}".rstrip("/")

    def identity(self) -> str:
        """Return the title, and where the bucket is."""
        endpoint = self.options.get("endpoint_override", "")
        return f"{self.title()}?endpoint_override={endpoint}" if endpoint else self.title()


@dataclass(frozen=True, slots=True)
class S3Access:
    """How to reach a bucket; "" for what the client finds by itself."""

    bucket: str
    prefix: str
    scheme: str
    endpoint: str
    region: str
    key: str
    secret: str
    token: str


def is_url(text: str) -> bool:
    return URL.match(text) is not None


def is_gateway(text: str) -> bool:
    """Return whether a URL is that of a gateway's HTTP listener."""
    return text.lower().startswith(("http:/", "https:/"))


def parse_place(url: str) -> Place:
    """Raises: TargetError."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        other = "; Spark's s3a:// is s3:// here" if parts.scheme == "s3a" else ""
        allowed = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise TargetError(f"{parts.scheme}:// is no place that can be used; allowed is a path, or {allowed}{other}")
    user, _, rest = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    prefix = unquote(parts.path).strip("/")
    if ".." in prefix.split("/") or "//" in prefix:
        raise TargetError(f"the path of {parts.scheme}://{rest}/{prefix} has '..' or an empty part")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == S3:
        unknown = [option for option in options if option not in OF_S3]
        if unknown:
            raise TargetError(f"s3:// has no option {unknown[0]!r}; it has {', '.join(OF_S3)}")
    if not rest and parts.scheme in (S3, "gs", "gcs"):
        raise TargetError(f"{parts.scheme}:// lacks a bucket")
    return Place(url, parts.scheme, rest, prefix, unquote(name), unquote(password), options)


def s3_access(place: Place, environment: Mapping[str, str] = os.environ) -> S3Access:
    """Return how the URL and the environment say that a bucket is reached."""
    given = next((environment[name] for name in ENDPOINTS if environment.get(name)), "")
    scheme, _, endpoint = given.rpartition("://")
    if "endpoint_override" in place.options:
        scheme, endpoint = "", place.options["endpoint_override"]
    region = place.options.get("region") or next((environment[name] for name in REGIONS if environment.get(name)), "")
    key, secret, token = place.user, place.password, ""
    if not key and environment.get("AWS_ACCESS_KEY_ID"):
        key, secret = environment["AWS_ACCESS_KEY_ID"], environment.get("AWS_SECRET_ACCESS_KEY", "")
        token = environment.get("AWS_SESSION_TOKEN", "")
    elif not key:
        key, secret, token = _of_profile(environment)
    return S3Access(
        place.bucket,
        place.prefix,
        place.options.get("scheme") or scheme or "https",
        endpoint.rstrip("/"),
        region,
        key,
        secret,
        token,
    )


def _of_profile(environment: Mapping[str, str]) -> tuple[str, str, str]:
    path = environment.get("AWS_SHARED_CREDENTIALS_FILE") or str(Path.home() / ".aws/credentials")
    read = ConfigParser(interpolation=None)
    try:
        read.read(path, encoding="utf-8")
        profile = read[environment.get("AWS_PROFILE") or "default"]
    except (KeyError, Error, OSError, UnicodeDecodeError):
        return "", "", ""
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    key, secret, token = (profile.get(name, "") for name in names)
    return key, secret, token
