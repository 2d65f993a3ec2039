"""Deadlines and pauses between tries."""

from __future__ import annotations

import random

import pytest

from pyspark_pravega import deadlines
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import SegmentStoreUnavailableError


def test_a_pause_takes_no_number_from_the_generator_that_the_program_may_have_seeded() -> None:
    state = random.getstate()
    tries = Retries(60.0)
    assert tries.again()
    assert tries.again()
    assert random.getstate() == state


def test_an_error_that_remains_tells_since_when_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what the last try met: of a store that was gone for minutes only that it had just closed a connection."""
    monkeypatch.setattr(deadlines, "SAID_AFTER_S", 0.01)
    tries = Retries(0.5)

    def ask() -> None:
        while True:
            try:
                raise SegmentStoreUnavailableError("closed by the server")
            except SegmentStoreUnavailableError:
                if not tries.again():
                    raise

    with pytest.raises(SegmentStoreUnavailableError, match=r"closed by the server; tried since .*, for [01] s"):
        ask()
