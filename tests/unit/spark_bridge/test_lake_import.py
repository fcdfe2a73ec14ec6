"""``penstock import``: an export, and Parquet files of others, to a real gateway."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.cli.dispatch import execute
from gateway.process import exit_codes
from spark_bridge.errors import TargetError
from spark_bridge.files.choice import files_at
from spark_bridge.lake_import import Request, Result, import_lake
from spark_bridge.partitioning import BY_DATE, PARTITIONINGS, Partitioning
from spark_bridge.read.scan import scan
from spark_bridge.write.connection import WriteFailed
from spark_bridge.write.options import WriteOptions, write_options
from spark_bridge.write.task import write_rows
from tests.support.objects.s3_server import S3Server
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.store.one_process_spark import OneProcessSpark

pytest.importorskip("pyspark")  # the export has it

Unique = Callable[[str], str]


def options_for(gateway: GatewayProcess, **given: str) -> WriteOptions:
    return write_options({"url": f"stomp://{gateway.stomp_host}:{gateway.stomp_port}", **given})


def exported(gateway: GatewayProcess, lake: Path | str, pattern: str, partitioning: Partitioning = ()) -> None:
    from spark_bridge.export import Request as ExportRequest
    from spark_bridge.export import export

    request = ExportRequest(gateway.data, pattern, lake, partitioning=partitioning)
    export(request, spark=cast(Any, OneProcessSpark()))


def rows_of(gateway: GatewayProcess, pattern: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = scan(str(gateway.data), destination=pattern).read_all().to_pylist()
    return rows


def texts(gateway: GatewayProcess, pattern: str) -> list[str]:
    return [row["body_text"] for row in rows_of(gateway, pattern)]


def filled(gateway: GatewayProcess, queue: str, count: int) -> list[str]:
    expected = [str(number) for number in range(count)]
    rows = ({"destination": queue, "body_text": text, "headers": {"n": text}, "priority": 7} for text in expected)
    write_rows(options_for(gateway), f"fill-{queue}", rows)
    return expected


def test_an_export_comes_back_in_order_and_once(shared_gateway: GatewayProcess, unique: Unique, tmp_path: Path) -> None:
    queue, again = unique("q"), unique("again")
    sent = filled(shared_gateway, queue, 2_500)
    exported(shared_gateway, tmp_path / "lake", f"queue://{queue}")
    request = Request(tmp_path / "lake", options_for(shared_gateway), to=again)
    assert import_lake(request).rows == 2_500
    found = rows_of(shared_gateway, f"queue://{again}")
    assert [row["body_text"] for row in found] == sent
    assert {row["priority"] for row in found} == {7} and dict(found[5]["headers"])["n"] == "5"
    old = rows_of(shared_gateway, f"queue://{queue}")
    assert [dict(row["headers"])["replayed-message-id"] for row in found] == [row["message_id"] for row in old]
    assert import_lake(request) == Result(import_lake(request).write_id, 0, 0, 0, 1)
    exported(shared_gateway, tmp_path / "lake", f"queue://{queue}")
    other = Request(tmp_path / "lake", options_for(shared_gateway), to=again, write_id=unique("another"))
    assert import_lake(other).rows == 2_500
    assert len(rows_of(shared_gateway, f"queue://{again}")) == 5_000


def test_a_gateway_that_is_killed_gets_the_rest_once(gateway: GatewayProcess, tmp_path: Path) -> None:
    sent = filled(gateway, "q", 300)
    exported(gateway, tmp_path / "lake", "q")
    write_rows(options_for(gateway), "more", ({"destination": "q", "body_text": f"m{n}"} for n in range(300)))
    sent += [f"m{n}" for n in range(300)]
    exported(gateway, tmp_path / "lake", "q")

    def kill(result: Result) -> None:
        if result.files == 1:
            gateway.kill9()

    with pytest.raises(WriteFailed):
        import_lake(Request(tmp_path / "lake", options_for(gateway), to="again", write_id="restore"), kill)
    gateway.restart()
    (progress,) = (tmp_path / "lake/_penstock/imports").iterdir()
    progress.write_text(progress.read_text() + "destination=que")  # the import was killed as it noted a file
    repeated = Request(tmp_path / "lake", options_for(gateway), to="again", write_id="restore")  # at another port
    assert (import_lake(repeated).skipped, texts(gateway, "again")) == (1, sent)
    progress.unlink()
    result = import_lake(repeated)  # nothing is noted, so the gateway tells what it knows
    assert (result.rows, result.known, texts(gateway, "again")) == (600, 600, sent)


def test_merged_files_are_sorted(shared_gateway: GatewayProcess, unique: Unique, tmp_path: Path) -> None:
    queue, again = unique("q"), unique("again")
    sent = filled(shared_gateway, queue, 100)
    exported(shared_gateway, tmp_path / "lake", f"queue://{queue}")
    (path,) = (tmp_path / "lake").glob("destination=*/date=*/*.parquet")
    table = pq.read_table(path, partitioning=None)
    pq.write_table(pa.concat_tables([table.slice(60), table.slice(0, 60)]), path, row_group_size=17)
    import_lake(Request(tmp_path / "lake", options_for(shared_gateway), to=again))
    assert texts(shared_gateway, f"queue://{again}") == sent


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    for name, numbers in (("b", [3, 4]), ("a", [1, 2])):
        columns = {"body_text": [str(number) for number in numbers], "priority": numbers}
        pq.write_table(pa.table(columns), tmp_path / f"files/{name}.parquet")
    return tmp_path / "files"


def test_other_files_in_the_order_of_their_names(shared_gateway: GatewayProcess, unique: Unique, files: Path) -> None:
    queue = unique("q")
    for source in (files, files, files / "b.parquet"):
        import_lake(Request(source, options_for(shared_gateway), to=queue))
    found = rows_of(shared_gateway, f"queue://{queue}")
    assert [row["body_text"] for row in found] == ["1", "2", "3", "4", "3", "4"]
    assert [row["priority"] for row in found] == [1, 2, 3, 4, 3, 4]


def test_the_command(
    shared_gateway: GatewayProcess,
    unique: Unique,
    tmp_path: Path,
    files: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    queue, again = unique("q"), unique("again")
    filled(shared_gateway, queue, 3)
    exported(shared_gateway, tmp_path / "lake", f"queue://{queue}")
    url = f"tcp://{shared_gateway.stomp_host}:{shared_gateway.stomp_port}"
    command = ["import", "--from", str(tmp_path / "lake"), "--url", url, "--to", again]
    assert execute([*command, "--dry-run"]) == exit_codes.OK
    assert capsys.readouterr().out == "3 messages of 1 file would be written\n"
    assert execute([*command, "--state", "acknowledged", "--json"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["rows"] == 0
    assert texts(shared_gateway, f"queue://{again}") == []
    assert execute([*command, "--state", "pending"]) == exit_codes.OK
    assert capsys.readouterr().out == "3 messages of 1 file written\n"
    assert execute([*command, "--state", "pending"]) == exit_codes.OK
    assert capsys.readouterr().out == "0 messages of 0 files written; 1 file had been written before\n"
    assert len(texts(shared_gateway, f"queue://{again}")) == 3
    assert execute(["import", "--from", str(files), "--url", url]) == exit_codes.USAGE
    assert "a row has no destination" in capsys.readouterr().err
    assert (
        execute(["import", "--from", str(files), "--url", "tcp://127.0.0.1:1", "--to", "q"]) == exit_codes.UNREACHABLE
    )
    assert "Connection refused; what is confirmed is written, and the same command writes the rest" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("make", "given", "text"),
    [
        (lambda path: None, {}, "has no Parquet files"),
        (lambda path: (path / "_penstock").mkdir(), {}, "which holds no export"),
        (
            lambda path: pq.write_table(pa.table({"x": [1]}), path / "x.parquet"),
            {},
            "unknown column 'x'; a write",
        ),
        (lambda path: None, {"state": "pending"}, "holds no export .* all rows are written"),
        (lambda path: None, {"destination": "a..b"}, "empty word"),
    ],
)
def test_what_cannot_be_imported(
    tmp_path: Path, make: Callable[[Path], None], given: dict[str, str], text: str
) -> None:
    make(tmp_path)
    with pytest.raises((TargetError, ValueError), match=text):
        import_lake(Request(tmp_path, write_options({}), **given))


def test_files_with_many_destinations_come_back_in_the_order_of_the_log(
    shared_gateway: GatewayProcess, unique: Unique, tmp_path: Path
) -> None:
    one, again = unique("q"), unique("again")
    sent = [str(number) for number in range(3_000)]
    rows = ({"destination": f"{one}.{int(text) * 7 % 5}", "body_text": text} for text in sent)
    write_rows(options_for(shared_gateway), one, rows)
    exported(shared_gateway, tmp_path / "lake", f"{one}.*", BY_DATE)
    assert import_lake(Request(tmp_path / "lake", options_for(shared_gateway), to=again)).files <= 2
    assert texts(shared_gateway, f"queue://{again}") == sent
    third = unique("third")
    assert import_lake(Request(tmp_path / "lake", options_for(shared_gateway), f"{one}.3", third)).rows == 600
    assert texts(shared_gateway, f"queue://{third}") == [text for text in sent if int(text) * 7 % 5 == 3]


@pytest.mark.parametrize("partitioning", PARTITIONINGS, ids=",".join)
def test_messages_go_where_they_were(start_gateway: StartGateway, tmp_path: Path, partitioning: Partitioning) -> None:
    old = start_gateway()
    rows = [{"destination": name, "body_text": name} for name in ("queue://a", "topic://b", "queue://c")]
    write_rows(options_for(old), "w/0", rows)
    exported(old, tmp_path / "lake", ">", partitioning)
    new = start_gateway()
    assert import_lake(Request(tmp_path / "lake", options_for(new), "queue://>")).rows == 2
    assert [(row["destination"], row["body_text"]) for row in rows_of(new, ">")] == [
        ("queue://a", "queue://a"),
        ("queue://c", "queue://c"),
    ]


def test_an_export_in_a_bucket_comes_back_once(
    shared_gateway: GatewayProcess,
    unique: Unique,
    s3_server: S3Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    queue, again = unique("q"), unique("again")
    sent = filled(shared_gateway, queue, 50)
    lake = s3_server.lake()
    exported(shared_gateway, lake.url, f"queue://{queue}")
    url = f"tcp://{shared_gateway.stomp_host}:{shared_gateway.stomp_port}"
    command = ["import", "--from", lake.url, "--url", url, "--to", again]
    assert execute([*command, "--dry-run"]) == exit_codes.OK
    assert execute(command) == exit_codes.OK
    assert texts(shared_gateway, f"queue://{again}") == sent
    assert execute(command) == exit_codes.OK
    assert "0 messages of 0 files written; 1 file had been written before" in capsys.readouterr().out
    assert texts(shared_gateway, f"queue://{again}") == sent

    pq.write_table(pa.table({"body_text": ["of others"]}), tmp_path / "x.parquet")
    alone = s3_server.lake()
    files_at(alone.url).write("x.parquet", (tmp_path / "x.parquet").read_bytes())
    other, third = unique("other"), unique("third")
    assert execute(["import", "--from", alone.url, "--url", url, "--to", other]) == exit_codes.OK
    one = alone.url.replace("?", "/x.parquet?")
    assert execute(["import", "--from", one, "--url", url, "--to", third]) == exit_codes.OK
    assert texts(shared_gateway, f"queue://{other}") == texts(shared_gateway, f"queue://{third}") == ["of others"]
