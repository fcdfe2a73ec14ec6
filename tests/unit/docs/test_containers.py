"""The files for containers: linters take them, and they fit the project."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from config.exposure import refuse_open_listeners
from config.loader import load_config
from gateway.cli import run
from tests.support.config.configurations import with_user

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLES: Final = ROOT / "examples"
DOCKERFILE: Final = EXAMPLES / "container" / "Dockerfile"
CONFIG: Final = EXAMPLES / "container" / "penstock.yaml"
MANIFESTS: Final = EXAMPLES / "kubernetes" / "penstock.yaml"


def instructions() -> list[tuple[str, str]]:
    """Return each instruction of the Dockerfile and its arguments."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    words = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(word, " ".join(rest.split())) for word, rest in words]


def last(word: str) -> str:
    return [rest for each, rest in instructions() if each == word][-1]


def manifests() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFESTS.read_text())}


def complaints(*options: str) -> list[str]:
    """Return the rules of hadolint that the Dockerfile breaks."""
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    hadolint = shutil.which("hadolint", path=places)
    if hadolint is None:
        pytest.skip("needs hadolint (of the extra dev, where there are wheels)")
    command = [hadolint, "--no-color", "--format", "json", *options, str(DOCKERFILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    found = [one["code"] for one in json.loads(done.stdout)]
    assert done.returncode == bool(found), done.stderr
    return found


def test_hadolint_takes_the_dockerfile() -> None:
    assert complaints() == []
    assert complaints("--disable-ignore-pragma") == ["DL3008"], "what the Dockerfile excepts, and nothing else"


def test_what_is_copied_is_there_and_all_that_is_packed() -> None:
    sources = [
        word for each, rest in instructions() if each == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]
    assert [name for name in sources if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packed = [pattern.rstrip("*") for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]]
    needed = {*packed, *project["project"]["license-files"], project["project"]["readme"], "pyproject.toml", "setup.py"}
    assert needed == set(sources)
    sent = {
        line[1:] for line in DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    assert sent == needed


def test_the_image_runs_the_gateway_and_not_as_root() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["penstock"]
    parser = ArgumentParser()
    run.add_parser(parser.add_subparsers(dest="command"))
    parsed = parser.parse_args(json.loads(last("CMD")))
    assert (parsed.command, parsed.data) == ("run", last("VOLUME"))
    user = last("USER")
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", user)
    pod = manifests()["StatefulSet"]["spec"]["template"]["spec"]
    assert user == f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"


def test_the_configuration_needs_only_users(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    users.write_text(with_user("ann", "secret"))
    config = load_config([str(CONFIG), str(users)])
    refuse_open_listeners(config)
    ports = {config.listeners.stomp.port, config.listeners.http.port}
    assert ports == {int(port) for port in last("EXPOSE").split()}
    assert ports == {port["port"] for port in manifests()["Service"]["spec"]["ports"]}


def test_kubernetes_takes_the_manifests() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate (of the extra dev)")
    versions = validator.utils.all_versions()
    for manifest in manifests().values():
        for version in (versions[0], versions[-1]):
            validator.validate(manifest, version, strict=True)
    misspelt = copy.deepcopy(manifests()["StatefulSet"])
    misspelt["spec"]["template"]["spec"]["terminationGraceSeconds"] = 60
    with pytest.raises(validator.ValidationError, match="terminationGraceSeconds"):
        validator.validate(misspelt, versions[-1], strict=True)


def test_the_parts_of_the_manifests_name_each_other() -> None:
    service, gateways = manifests()["Service"], manifests()["StatefulSet"]["spec"]
    labels = gateways["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == gateways["selector"]["matchLabels"] == labels
    assert (gateways["serviceName"], gateways["replicas"]) == (service["metadata"]["name"], 1)
    pod = gateways["template"]["spec"]
    (container,) = pod["containers"]
    named = {port["name"] for port in container["ports"]}
    assert named == {port["targetPort"] for port in service["spec"]["ports"]}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    assert all(probe["port"] in named for probe in probes.values())
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in gateways["volumeClaimTemplates"]}
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted.keys() == volumes
    assert mounted["data"] == last("VOLUME")
