from __future__ import annotations

from bisect import bisect_right
from random import Random

import pytest

from engine.features.scheduler.sorted_keys import CHUNK_KEYS, SortedKeys


@pytest.mark.parametrize("seed", range(3))
def test_it_is_a_sorted_list(seed: int) -> None:
    random = Random(seed)
    keys = SortedKeys(sorted(range(0, 9_000, 3)))
    model = sorted(range(0, 9_000, 3))
    for _ in range(6_000):
        if model and random.random() < 0.6:
            gone = model.pop(random.choice((0, random.randrange(len(model)))))
            keys.remove(gone)
        else:
            new = random.randrange(0, 30_000) * 3 + 1
            if new in model:
                continue
            model.insert(bisect_right(model, new), new)
            keys.add(new)
        assert len(keys) == len(model)
        if model:
            assert keys.first() == model[0]
            key = random.choice(model) - random.randrange(2)
            at = bisect_right(model, key)
            found = keys.after(key, 5)
            assert found == model[at : at + len(found)]
            assert bool(found) == (at < len(model))


def test_it_may_be_emptied_and_filled_again() -> None:
    keys = SortedKeys()
    for _ in range(2):
        for key in range(3 * CHUNK_KEYS):
            keys.add(key)
        for key in range(3 * CHUNK_KEYS):
            assert keys.first() == key
            keys.remove(key)
        assert len(keys) == 0
        assert keys.after(-1, 9) == []
