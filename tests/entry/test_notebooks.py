"""`notebooks/`, executed as Jupyter does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from entry_tools import clean_environment
from nbclient import NotebookClient

from pyspark_pravega.sandbox import Sandbox

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
_CELL_S = 300


def _read(path: Path) -> Any:
    read: Callable[..., Any] = nbformat.read
    return read(path, as_version=4)


def test_all_notebooks_are_executed_here() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {"quickstart", "streaming"}


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    notebook = _read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert not re.search(r"/(home|root|Users|tmp)/", path.read_text())


def executed(name: str, sandbox: Sandbox, folder: Path) -> tuple[str, int]:
    """Execute a notebook; all that it printed, and how many plots it shows."""
    notebook = _read(NOTEBOOKS / f"{name}.ipynb")
    client = NotebookClient(notebook, timeout=_CELL_S, resources={"metadata": {"path": str(folder)}})
    client.execute(env=clean_environment(sandbox.environment()))
    outputs: list[Any] = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    return printed, sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.filterwarnings("default")
def test_quickstart(sandbox: Sandbox, tmp_path: Path) -> None:
    printed, plots = executed("quickstart", sandbox, tmp_path)
    assert plots == 2
    for row in ("|      1|12208|", "|      2|14796|", "| 12208|27004|14796|"):
        assert row in printed, printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.filterwarnings("default")
def test_streaming(sandbox: Sandbox, tmp_path: Path) -> None:
    printed, plots = executed("streaming", sandbox, tmp_path)
    assert plots == 2
    found = re.search(r"(\d+) micro-batches", printed)
    assert found is not None, printed
    assert int(found.group(1)) >= 3
