"""docs/reference/compatibility.md is what the tables say."""

from __future__ import annotations

from pathlib import Path

from config.reports.compatibility import build

ROOT = Path(__file__).parents[3]


def test_the_page_is_current() -> None:
    """To renew it: ``penstock check-config --options > docs/reference/compatibility.md``."""
    assert (ROOT / "docs" / "reference" / "compatibility.md").read_text() == build()


def test_every_kind_of_option_is_there() -> None:
    text = build()
    assert "| `consumer-window-size` | honoured | `consumer-window-size` |" in text
    assert "| `jaasAuthenticationPlugin` | refused | users of this kind" in text
    assert "| `enableAudit` | listed | duplicates are not detected |" in text
