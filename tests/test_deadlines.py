"""Deadlines and pauses between tries."""

from __future__ import annotations

import random

from pyspark_pravega.deadlines import Retries


def test_a_pause_takes_no_number_from_the_generator_that_the_program_may_have_seeded() -> None:
    state = random.getstate()
    tries = Retries(60.0)
    assert tries.again()
    assert tries.again()
    assert random.getstate() == state
