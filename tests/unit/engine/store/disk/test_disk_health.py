from __future__ import annotations

from engine.store.disk.disk_health import CHECKPOINT, LOG, Health
from tests.support.store.store_world import RecordingListener


def test_told_once_until_everything_is_well() -> None:
    health = Health()
    listener = RecordingListener()
    health.attach(listener)
    health.heal(LOG)
    health.fail(LOG, "one")
    health.fail(LOG, "two")
    health.fail(CHECKPOINT, "three")
    assert listener.failures == ["one"]
    assert not health.is_good()
    health.heal(LOG)
    assert listener.healed_count == 0
    health.heal(CHECKPOINT)
    assert listener.healed_count == 1
    assert health.is_good()
    health.fail(CHECKPOINT, "four")
    assert listener.failures == ["one", "four"]
