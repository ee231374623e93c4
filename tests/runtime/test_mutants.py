"""What `./run chaos` breaks is still there to be broken, and the tests it names are still there to notice."""

from pathlib import Path

import pytest

from bench.chaos import EVERY

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", EVERY, ids=lambda mutant: mutant.name)
def test_each_fault_has_one_place_and_one_test(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
    file, _, test = mutant.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text()


def test_every_fault_has_a_name_of_its_own():
    assert len({mutant.name for mutant in EVERY}) == len(EVERY) >= 35
