"""How Spark is started, and how a session gets the data source."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")


from spark_bridge import source
from spark_bridge.spark.session import SessionFailed, check_master, niced, settings_for, worker_python


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_a_local_spark_is_bound_to_loopback(master: str) -> None:
    settings = settings_for(master, "")
    assert (settings["spark.driver.host"], settings["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert settings["spark.python.daemon.module"] == "spark_bridge.spark.daemon"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[1,1,1024]"])
def test_workers_elsewhere_reach_the_driver(master: str) -> None:
    settings = settings_for(master, "")
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.python.daemon.module"} & set(settings)
    settings = settings_for(master, "10.0.0.7")
    assert (settings["spark.driver.host"], settings["spark.driver.bindAddress"]) == ("10.0.0.7", "0.0.0.0")


def test_workers_elsewhere_have_the_python_that_the_user_names() -> None:
    named = {"PYSPARK_PYTHON": "/opt/python/bin/python"}
    assert worker_python("spark://host:7077", named) == "/opt/python/bin/python"
    assert worker_python("spark://host:7077", {}) == worker_python("local[2]", named) == sys.executable


def test_a_master_that_cannot_be_reached_is_named_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        listening, refused = server.getsockname()[1], closed.getsockname()[1]
        check_master(f"spark://127.0.0.1:{refused},127.0.0.1:{listening}")
        check_master("yarn")
        with pytest.raises(SessionFailed) as caught:
            check_master(f"spark://127.0.0.1:{refused},host,host:x,127.0.0.1:99999")
    told = str(caught.value)
    assert told.startswith(f"the Spark master cannot be reached: 127.0.0.1:{refused}: ")
    assert "Connection refused; 'host' is not HOST:PORT; 'host:x' is not HOST:PORT; 127.0.0.1:99999: " in told


def test_a_niced_call_starts_processes_of_lower_priority() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    told = niced(3, lambda: subprocess.run(["nice"], check=True, capture_output=True, text=True).stdout)
    assert int(told) == min(own + 3, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


class ConnectSession:
    """A session of Spark Connect: it has no SparkContext."""

    def __init__(self) -> None:
        self.dataSource = self
        self.conf = self
        self.settings: dict[str, str] = {}
        self.registered: list[type] = []
        self.modules: list[str] = []

    @property
    def sparkContext(self) -> Any:
        raise AttributeError("not supported in Spark Connect")

    def addArtifacts(self, *paths: str, pyfile: bool = False) -> None:
        assert pyfile
        for path in paths:
            assert Path(path).is_file()
            self.modules += zipfile.ZipFile(path).namelist()

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def register(self, kind: type) -> None:
        self.registered.append(kind)


def test_spark_connect_takes_the_data_source_and_its_modules() -> None:
    session: Any = ConnectSession()
    source.register(session)
    assert session.registered == [source.PenstockDataSource]
    assert "spark_bridge/source.py" in session.modules
