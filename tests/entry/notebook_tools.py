"""Executes `notebooks/`; as a program it stores them with what they gave (`make notebooks`)."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from pyspark_pravega.sandbox import Sandbox

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
_CELL_S = 300
read: Callable[..., NotebookNode] = nbformat.read
write: Callable[..., None] = nbformat.write
written: Callable[[NotebookNode], str] = nbformat.writes
_notebook: Callable[..., NotebookNode] = nbformat.v4.new_notebook
_cell: Callable[[str], NotebookNode] = nbformat.v4.new_code_cell


@dataclass
class Shown:
    """What a reader sees below the cells."""

    printed: str
    plots: int


def output_of(notebook: NotebookNode) -> Shown:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return Shown(
        printed="".join(output.text for output in outputs if output.output_type == "stream"),
        plots=sum("image/png" in output.get("data", {}) for output in outputs),
    )


FORGET = """
import os
from pyspark import SparkContext
properties = SparkContext._jvm.java.lang.System.getProperties()
options = [*os.environ.get("SPARK_SUBMIT_OPTS", "").split(), "-Dspark.app.name="]
for name in list(properties.stringPropertyNames()):
    if name.startswith("spark.") and not any(option.startswith(f"-D{name}=") for option in options):
        properties.remove(name)
get_ipython().run_line_magic("reset", "-f")
"""
"""What a notebook leaves in its kernel: the names of its cells, and in the JVM how its session was configured. Only the
name that spark-submit gave the program stays."""


class Kernel:
    """Executes notebooks as Jupyter does, one after another in one process with one JVM.

    Each begins without names, and with a Spark session of its own, which it stops at its end.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        """Describe a kernel; the first notebook starts it.

        Args:
            environment: all of its environment.
            folder: where it runs.
        """
        self._environment = dict(environment)
        resources = {"metadata": {"path": str(folder)}}
        self._client = NotebookClient(_notebook(), timeout=_CELL_S, record_timing=False, resources=resources)

    def execute(self, name: str, changes: Mapping[str, str] | None = None) -> NotebookNode:
        """A notebook with its outputs; a cell that fails is an error.

        Args:
            name: without its ending.
            changes: texts in its cells, and what stands in their places; each must be there once.
        """
        notebook = read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        for text, other in (changes or {}).items():
            (cell,) = [cell for cell in notebook.cells if text in cell.source]
            assert cell.source.count(text) == 1
            cell.source = cell.source.replace(text, other)
        for one in (notebook, _notebook(cells=[_cell(FORGET)])):
            self._client.nb = one
            self._client.execute(env=self._environment, cleanup_kc=False)
        return notebook

    def stop(self) -> None:
        """End its process, which waits for a pipe that the JVM holds: a signal comes when half of the time is over."""
        with self._client.setup_kernel():
            assert self._client.km is not None
            self._client.km.shutdown_wait_time = 1.0


def store(name: str, environment: Mapping[str, str]) -> None:
    """Execute a notebook, and write it anew with its outputs, but for what the machine said (standard error)."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(environment, Path(folder))
        try:
            notebook = kernel.execute(name)
        finally:
            kernel.stop()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    # The kernel adds which Python it is.
    notebook.metadata.language_info = {"name": "python"}
    write(notebook, NOTEBOOKS / f"{name}.ipynb")


if __name__ == "__main__":
    from entry_tools import clean_environment

    with Sandbox(heap="1g") as sandbox:
        for stored in sys.argv[1:] or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")):
            store(stored, clean_environment(sandbox.environment()))
