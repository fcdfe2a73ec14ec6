"""The route that reads the configuration again."""

from __future__ import annotations

from tests.support.web import GUARDED, Reloading, basic, serving


async def test_it_says_what_has_changed_and_who_asked() -> None:
    source = Reloading()
    async with serving(reload=source) as client:
        response = await client.post("/api/reload")
        assert response.status == 200
        assert await response.json() == {"applied": ["users.ann: added"], "restart": ["data: y, before x"]}
    async with serving(login_check=GUARDED, reload=source) as client:
        assert (await client.post("/api/reload")).status == 401
        assert (await client.post("/api/reload", headers=basic("alice", "secret"))).status == 200
    assert source.asked == ["address 127.0.0.1", "user 'alice'"]


async def test_an_error_of_the_configuration_is_a_problem_with_its_place() -> None:
    source = Reloading()
    source.problem = "unknown key"
    async with serving(reload=source) as client:
        response = await client.post("/api/reload")
        assert response.status == 409
        problem = await response.json()
        assert problem["condition"] == "invalid-configuration"
        assert "nothing has changed" in problem["detail"] and "p.yaml:1: dat: unknown key" in problem["detail"]
