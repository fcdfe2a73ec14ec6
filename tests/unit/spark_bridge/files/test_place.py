"""URLs of lakes, and what the environment adds to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_bridge.errors import TargetError
from spark_bridge.files.choice import files_at
from spark_bridge.files.place import parse_place, s3_access


@pytest.mark.parametrize(
    ("url", "title", "identity"),
    [
        ("s3://lake", "s3://lake", "s3://lake"),
        ("s3://lake/a/b/", "s3://lake/a/b", "s3://lake/a/b"),
        ("s3://key:se%2Fcret@lake/a?region=eu-north-1", "s3://lake/a", "s3://lake/a"),
        ("s3://lake/a?scheme=http&endpoint_override=h:9", "s3://lake/a", "s3://lake/a?endpoint_override=h:9"),
        ("abfss://box:key@account.dfs.core.windows.net/a", "abfss://box@account.dfs.core.windows.net/a", None),
        ("gs://anonymous@lake/a", "gs://lake/a", None),
        ("hdfs://user@name:9000/a", "hdfs://name:9000/a", None),
    ],
)
def test_names_of_a_lake_have_no_credentials(url: str, title: str, identity: str | None) -> None:
    files = files_at(url)
    assert (files.title, files.identity) == (title, identity or title)


def test_a_path_is_a_directory(tmp_path: Path) -> None:
    assert files_at(tmp_path).title == files_at(str(tmp_path)).title == str(tmp_path)
    assert files_at("a").identity == str(Path("a").absolute())


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (
            "s3a://lake/a",
            "s3a:// is no place that can be used; allowed is a path, or s3://.*; Spark's s3a:// is s3:// here",
        ),
        ("file:///lake/a", "file:// is no place that can be used; allowed is a path"),
        ("https://lake/a", "https:// is no place"),
        ("s3://lake/a?region=x&tls=no", "s3:// has no option 'tls'; it has region, scheme, endpoint_override"),
        ("s3:///a", "lacks a bucket"),
        ("s3://lake/a/../b", "has '..' or an empty part"),
        ("s3://lake/a//b", "has '..' or an empty part"),
    ],
)
def test_urls_that_are_refused(url: str, text: str) -> None:
    with pytest.raises(TargetError, match=text):
        files_at(url)


def test_what_the_environment_adds(tmp_path: Path) -> None:
    nothing = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
    access = s3_access(parse_place("s3://lake/a"), nothing)
    assert (access.scheme, access.endpoint, access.region, access.key) == ("https", "", "", "")
    environment = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000/",
        "AWS_DEFAULT_REGION": "eu-north-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }
    access = s3_access(parse_place("s3://lake/a"), environment)
    assert (access.scheme, access.endpoint, access.region) == ("http", "127.0.0.1:9000", "eu-north-1")
    assert (access.key, access.secret, access.token) == ("key", "secret", "token")
    access = s3_access(parse_place("s3://k:s@lake/a?endpoint_override=h&region=r"), environment)
    assert (access.scheme, access.endpoint, access.region) == ("https", "h", "r")
    assert (access.key, access.secret, access.token) == ("k", "s", "")


def test_credentials_of_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = %b\n[other]\naws_access_key_id = c\n")
    environment = {"AWS_SHARED_CREDENTIALS_FILE": str(path)}
    place = parse_place("s3://lake")
    assert s3_access(place, environment).secret == "%b"
    assert s3_access(place, environment | {"AWS_PROFILE": "other"}).key == "c"
    assert s3_access(place, environment | {"AWS_PROFILE": "none"}).key == ""
