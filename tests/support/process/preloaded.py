"""What forked gateways find imported."""

from __future__ import annotations

import gc

import gateway.app
import gateway.cli.run
import gateway.web.server  # noqa: F401

# A collection in a forked process would touch, and so copy, the pages of all these objects.
gc.collect()
gc.freeze()
