"""The examples on the client's pages run, one after another, against a real Pravega."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from pyspark_pravega.client import Client
from pyspark_pravega.sandbox import Sandbox

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["client.md", "client-streams.md", "client-tables.md"]


@pytest.mark.server
@pytest.mark.parametrize("page", [page for page in PAGES if (DOCS / page).exists()])
def test_the_examples_run(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", sandbox.controller_uri)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    # The pages use the same names, and each begins anew.
    scope = f"docs-{uuid.uuid4().hex[:8]}"
    names: dict[str, object] = {}
    try:
        for block in blocks:
            exec(compile(re.sub(r"\bshop\b", scope, block), page, "exec"), names)
    finally:
        for made in names.values():
            if isinstance(made, Client):
                made.close()
