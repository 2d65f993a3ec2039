"""What the tests of the live page share."""

from __future__ import annotations

import pytest

from pyspark_pravega.live import sampling
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.settings import Settings


@pytest.fixture
def no_sample_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look asks the servers."""
    monkeypatch.setattr(sampling, "LEAST_S", 0.0)
    monkeypatch.setattr(sampling, "LISTED_S", 0.0)


@pytest.fixture
def answers(settings: Settings, scope: str) -> Answers:
    return Answers(settings, scope=scope)
