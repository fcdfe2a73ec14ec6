"""Failed attempts: page by page the same as in one dict."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import astuple, replace

import pytest

from engine.store.state.progress import FailedEntries
from engine.values.outcomes import CAUSE_NACK
from engine.values.stored import Attempts


@pytest.mark.parametrize("seed", range(30))
def test_pages_say_what_one_dict_would(seed: int) -> None:
    chance = random.Random(seed)
    failed = FailedEntries()
    known: dict[int, Attempts] = {}
    for step in range(150):
        entry = chance.choice((127, 128, chance.randrange(300), chance.randrange(5_000)))
        if chance.random() < 0.6:
            attempts = Attempts(step, 0, step, step, CAUSE_NACK, chance.randrange(5))
            failed.note(entry, attempts)
            known[entry] = replace(attempts, first_ms=known[entry].first_ms) if entry in known else attempts
        else:
            count = chance.choice((1, 1, 3, 128, 129, 400, 100_000))
            failed.settle(entry, count)
            known = {each: attempts for each, attempts in known.items() if not entry <= each < entry + count}
        if chance.random() < 0.5:
            failed.text()
        assert failed.all() == known
        assert failed.get(entry) == known.get(entry)
        assert all(failed.pages.values())
        assert failed.consumers == Counter(attempts.consumer_id for attempts in known.values())
        told = [[entry, *astuple(known[entry])] for entry in sorted(known)]
        assert json.loads(f"[{failed.text()}]") == told
        assert failed.pages_to_encode() == []
