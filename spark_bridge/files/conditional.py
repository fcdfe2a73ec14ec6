"""Writes to an object store on the condition that the object is not there, which ``pyarrow.fs`` cannot ask for.

S3 calls it ``If-None-Match: *``, Google ``ifGenerationMatch=0``, Azure ``If-None-Match``; obstore speaks all of them.
A store that does not know the condition replaces the object instead, so it is tried before anything depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from spark_bridge.errors import LakeError, TargetError
from spark_bridge.files.place import S3, Place, s3_access
from spark_bridge.files.region import region_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

REQUEST_LIMIT: Final = timedelta(seconds=60)
CONNECT_LIMIT: Final = timedelta(seconds=10)
RETRIES: Final = 3
NEEDS_OBSTORE: Final = "an export to an object store needs obstore: pip install 'penstock[objects]' (missing: {})"
NO_CONDITIONS: Final = (
    "an export to {0} is refused: {1}, so two exports at once, or an export and another program that commits to the "
    "table, could destroy each other's files"
)
NO_CONNECTION: Final = "the connection to the object store failed"
OF_MACHINES: Final = ("/latest/api/token", "/security-credentials")  # where machines of a cloud ask for theirs
REASONS: Final = {
    "NotFoundError": "there is no such bucket",
    "PermissionDeniedError": "access is denied: no credentials, or they lack the right",
    "UnauthenticatedError": "the credentials are refused",
}


class ConditionalStore:
    """The objects below a place of a lake."""

    def __init__(self, place: Place) -> None:
        """Raises: TargetError if the kind of place has no conditions, LakeError without obstore."""
        self._title = place.title()
        with self._told("begin"):
            self._store = _store_at(place)

    def create(self, path: str, octets: bytes) -> bool:
        """Make an object; return False if it is there.  Raises: LakeError, also where the answer was lost."""
        from obstore import put
        from obstore.exceptions import AlreadyExistsError

        with self._told(f"write {path}"):
            try:
                put(self._store, path, octets, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def delete(self, paths: list[str]) -> None:
        """Delete objects; those that are not there do not matter.  Raises: LakeError."""
        from obstore import delete

        if paths:
            with self._told(f"delete {paths[0]}"):
                delete(self._store, paths)

    def check(self, folder: str) -> None:
        """Make an object twice and delete it.  Raises: TargetError if the condition is not kept, LakeError."""
        path = f"{folder}/probe-{token_hex(8)}"
        self.create(path, b"first")
        is_replaced = self.create(path, b"second")
        self.delete([path])
        if is_replaced:
            raise TargetError(NO_CONDITIONS.format(self._title, "its object store knows no conditional writes"))

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            from obstore.exceptions import BaseError
        except ModuleNotFoundError as error:
            raise LakeError(NEEDS_OBSTORE.format(error.name)) from None
        try:
            yield
        except FileNotFoundError:
            raise LakeError(f"cannot {what} in {self._title}: {REASONS['NotFoundError']}") from None
        except (BaseError, OSError) as error:
            raise LakeError(f"cannot {what} in {self._title}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    text = str(error).splitlines()[0]
    if any(path in text for path in OF_MACHINES):
        return "no credentials were found, neither given nor of this machine"
    return NO_CONNECTION if "HTTP error" in text else REASONS.get(type(error).__name__, text)


def _store_at(place: Place) -> ObjectStore:
    from obstore.store import S3Store, from_url

    retries: Any = {"max_retries": RETRIES, "retry_timeout": REQUEST_LIMIT}
    if place.scheme == S3:
        access = s3_access(place)
        config: Any = {
            "access_key_id": access.key,
            "secret_access_key": access.secret,
            "session_token": access.token,
            "endpoint": f"{access.scheme}://{access.endpoint}" if access.endpoint else "",
            "region": access.region or region_of(access.bucket, access.endpoint),
        }
        config = {name: value for name, value in config.items() if value}
        return S3Store(
            access.bucket,
            prefix=access.prefix or None,
            config=config,
            client_options={
                "allow_http": access.scheme == "http",
                "timeout": REQUEST_LIMIT,
                "connect_timeout": CONNECT_LIMIT,
            },
            retry_config=retries,
        )
    if place.scheme in ("hdfs", "viewfs"):
        raise TargetError(NO_CONDITIONS.format(place.title(), f"{place.scheme}:// has no conditional writes"))
    of_azure: Any = {"account_key": place.password} if place.password else {}
    url = place.title().replace("gcs://", "gs://", 1)
    found: ObjectStore = from_url(url, config=of_azure, retry_config=retries)
    return found
