"""Who may do what: precedence of entries, union of ActiveMQ's, and what an unguarded action follows."""

from __future__ import annotations

import pytest

from config.matching import BOTH, CACHED_NAMES_MAX, QUEUE, TOPIC, Pattern
from config.permissions import Action, Permission, PermissionMap


def entry(pattern: str, kinds: int = BOTH, unites: bool = False, **grants: str) -> Permission:
    """Return an entry; each grant is ``action="group group"``."""
    named: dict[str, Action] = {"read": "read", "write": "write", "create": "create", "subscribe": "subscribe"}
    named["export"] = "export"
    return Permission(
        Pattern.parse(pattern),
        kinds,
        {named[action]: frozenset(groups.split()) for action, groups in grants.items()},
        unites,
    )


def groups(*names: str) -> frozenset[str]:
    return frozenset(names)


def test_without_entries_everybody_may_do_everything() -> None:
    permissions = PermissionMap(())
    assert permissions.is_open
    assert permissions.allows("create", QUEUE, "a", groups())


def test_what_no_entry_grants_is_refused() -> None:
    permissions = PermissionMap((entry("a.>", read="users"),))
    assert not permissions.is_open
    assert permissions.allows("read", QUEUE, "a.b", groups("users"))
    assert not permissions.allows("read", QUEUE, "b", groups("users"))
    assert not permissions.allows("write", QUEUE, "a.b", groups("users"))
    assert not permissions.allows("read", QUEUE, "a.b", groups("others"))


def test_the_most_specific_entry_that_says_something_of_the_action_decides() -> None:
    permissions = PermissionMap((entry("a.b", read="few"), entry(">", read="many", write="many")))
    assert permissions.groups_for("read", QUEUE, "a.b") == groups("few")
    assert permissions.groups_for("write", QUEUE, "a.b") == groups("many")


def test_entries_that_unite_add_up() -> None:
    permissions = PermissionMap((entry(">", read="admins", unites=True), entry("a.>", read="users", unites=True)))
    assert permissions.groups_for("read", QUEUE, "a.b") == groups("admins", "users")


def test_an_entry_that_does_not_unite_ends_the_union() -> None:
    permissions = PermissionMap((entry(">", read="admins", unites=True), entry("a.>", read="users")))
    assert permissions.groups_for("read", QUEUE, "a.b") == groups("users")


def test_the_later_of_two_equal_entries_decides() -> None:
    permissions = PermissionMap((entry("a", read="first"), entry("a", read="second")))
    assert permissions.groups_for("read", QUEUE, "a") == groups("second")


def test_an_entry_is_for_its_kind() -> None:
    permissions = PermissionMap((entry("a", TOPIC, read="users"),))
    assert permissions.allows("read", TOPIC, "a", groups("users"))
    assert not permissions.allows("read", QUEUE, "a", groups("users"))


def test_the_star_is_everybody() -> None:
    assert PermissionMap((entry("a", read="*"),)).allows("read", QUEUE, "a", groups())


def test_an_empty_grant_is_nobody() -> None:
    permissions = PermissionMap((entry(">", read="users"), entry("a", read="")))
    assert not permissions.allows("read", QUEUE, "a", groups("users"))


@pytest.mark.parametrize("action", ["browse", "subscribe", "subscribe-durable", "unsubscribe"])
def test_who_may_read_may_subscribe_and_browse(action: Action) -> None:
    permissions = PermissionMap((entry("a", read="users"),))
    assert permissions.groups_for(action, TOPIC, "a") == groups("users")


def test_a_guarded_subscription_does_not_follow_read() -> None:
    permissions = PermissionMap((entry("a", read="users", subscribe="few"),))
    assert permissions.groups_for("subscribe", TOPIC, "a") == groups("few")


def test_to_say_how_far_an_export_is_follows_nothing() -> None:
    permissions = PermissionMap((entry(">", read="users", create="users"),))
    assert not permissions.allows_everywhere("export", groups("users"))
    assert PermissionMap((entry(">", export="users"),)).allows_everywhere("export", groups("users"))


def test_the_cache_is_bounded() -> None:
    permissions = PermissionMap((entry("a.>", read="users"),))
    kept = permissions.groups_for("read", QUEUE, "a.0")
    for number in range(CACHED_NAMES_MAX):
        assert permissions.groups_for("read", QUEUE, "a.0") is kept
        assert permissions.allows("read", QUEUE, f"a.{number + 1}", groups("users"))
    assert permissions.groups_for("read", QUEUE, "a.0") is not kept


def test_everywhere_is_where_no_more_specific_entry_keeps_it_to_others() -> None:
    granted = entry(">", read="ops")
    assert PermissionMap(()).allows_everywhere("read", groups())
    assert PermissionMap((granted,)).allows_everywhere("read", groups("ops"))
    assert PermissionMap((granted,)).allows_everywhere("browse", groups("ops")), "browse follows read"
    assert not PermissionMap((granted,)).allows_everywhere("read", groups("others"))
    assert not PermissionMap((entry("a.>", read="ops"),)).allows_everywhere("read", groups("ops"))
    assert not PermissionMap((granted, entry("secret.>", read="hr"))).allows_everywhere("read", groups("ops"))
    assert PermissionMap((granted, entry("secret.>", read="hr ops"))).allows_everywhere("read", groups("ops"))
    assert PermissionMap((granted, entry("secret.>", write="hr"))).allows_everywhere("read", groups("ops"))
    assert PermissionMap((granted, entry("a.>", unites=True, read="hr"))).allows_everywhere("read", groups("ops"))


def test_everywhere_asks_only_the_later_of_two_equal_entries() -> None:
    permissions = PermissionMap((entry(">", read="first"), entry(">", read="second")))
    assert permissions.allows_everywhere("read", groups("second"))
    assert not permissions.allows_everywhere("read", groups("first"))
