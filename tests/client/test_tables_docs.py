"""The examples in docs/client-tables.md run, one after another, against a real Pravega."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyspark_pravega.sandbox import Sandbox

PAGE = Path(__file__).parents[2] / "docs" / "client-tables.md"


@pytest.mark.server
def test_the_examples_run(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", sandbox.controller_uri)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    client = names["client"]
    client.close()  # type: ignore[attr-defined]
