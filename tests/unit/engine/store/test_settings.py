from __future__ import annotations

from typing import Any

import pytest

from engine.store.settings import StoreSettings


def test_the_defaults_are_those_that_are_documented() -> None:
    settings = StoreSettings()
    assert settings.segment_bytes == 64 * 1024 * 1024
    assert settings.flush == "sync"
    assert settings.flush_interval_ms == 500
    assert settings.retry_interval_ms == 500
    assert settings.retention_time_ms == 72 * 3600 * 1000
    assert settings.retention_bytes == 10 * 1024**3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush", "never"),
        ("segment_bytes", 4095),
        ("segment_bytes", 4097),
        ("segment_bytes", (1 << 30) + 8),
        ("flush_interval_ms", 0),
        ("retry_interval_ms", 0),
        ("retention_interval_ms", 0),
        ("page_open_files", 0),
        ("retention_time_ms", -1),
        ("retention_bytes", -1),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    settings: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"{name} is"):
        StoreSettings(**settings)
