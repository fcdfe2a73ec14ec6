"""What of HTTP is in the audit log, and what is not."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support.web import GUARDED, basic, serving

ALICE = basic("alice", "secret")


def entries(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    return [vars(record)["audit"] for record in caplog.records if record.name == "penstock.audit"]


@pytest.mark.parametrize(
    ("method", "path", "sent", "action", "target", "result"),
    [
        ("POST", "/api/purge", {"destination": "q", "filter": "a = 1"}, "startPurge", "queue://q filter=a = 1", "done"),
        ("POST", "/api/purge", {"destination": "topic://t"}, "startPurge", "topic://t", "invalid-request"),
        ("POST", "/api/pause", {"destination": "none"}, "pauseQueue", "queue://none", "not-found"),
        ("DELETE", "/api/connections/7", None, "closeConnection", "number=7", "done"),
        ("POST", "/api/delete", {"destination": ""}, "deleteDestination", "/api/delete", "invalid-request"),
    ],
)
async def test_what_an_operator_does(
    method: str,
    path: str,
    sent: dict[str, Any] | None,
    action: str,
    target: str,
    result: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(login_check=GUARDED) as client:
        await client.request(method, path, json=sent, headers=ALICE)
    (found,) = entries(caplog)
    assert (found["user"], found["address"], found["protocol"]) == ("alice", "127.0.0.1", "http")
    assert (found["action"], found["target"].removeprefix("destination="), found["result"]) == (action, target, result)


@pytest.mark.parametrize("path", ["/api/stat", "/metrics", "/nothing", "/healthz", "/"])
async def test_looking_is_no_management(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(login_check=GUARDED) as client:
        await client.get(path, headers=ALICE)
        await client.get(path)  # how a browser finds out that it needs a login
    assert entries(caplog) == []


@pytest.mark.parametrize(
    ("method", "path", "headers", "user", "action"),
    [
        ("GET", "/api/stat", basic("alice", "wrong"), "alice", "stat"),
        ("GET", "/api/stat", basic("mallory", "x"), "mallory", "stat"),
        ("POST", "/api/purge", {}, "", "startPurge"),
        ("GET", "/nothing", basic("mallory", "x"), "mallory", "GET /nothing"),
    ],
)
async def test_refused_logins(
    method: str, path: str, headers: dict[str, str], user: str, action: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(login_check=GUARDED) as client:
        await client.request(method, path, headers=headers)
    (found,) = entries(caplog)
    assert (found["user"], found["action"], found["target"], found["result"]) == (user, action, path, "login-refused")


async def test_a_login_that_nobody_checked_is_no_user(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as client:
        await client.post("/api/resume", json={"destination": "q"}, headers=basic("root", "x"))
        await client.get("/api/stat", headers={"Host": "evil.example"})
    assert [(one["user"], one["result"]) for one in entries(caplog)] == [("", "done"), ("", "access-denied")]
