"""Random single changes to a server's store and files: each is found, or of a kind that the docs name."""

import pytest

from experiments.tampering import tried


@pytest.mark.parametrize(("tries", "seed"), [(21, 1), pytest.param(420, 2, marks=pytest.mark.slow)])
def test_what_somebody_changes_is_found_or_named(tries: int, seed: int) -> None:
    missed: list[str] = []
    counts = tried(tries, seed, missed.append)
    assert missed == []
    assert sum(counts.values()) == tries
    assert sum(count for (_, outcome), count in counts.items() if outcome == "found") > 0.8 * tries
