"""What `typings` says of pyarrow is there: each name, each member, each parameter."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from pyspark_pravega.connector.read import BatchReader

STUBS = sorted((Path(__file__).parents[1] / "typings" / "pyarrow").glob("*.pyi"))


def missing(nodes: list[ast.stmt], there: Any, name: str) -> list[str]:
    """What a stub has and the module, or the class, hasn't; what begins with an underscore is the stub's own."""
    found = []
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            one = node.target.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            one = node.name
        else:
            continue
        if isinstance(node, ast.ClassDef) and one == "_Tabular":
            found += [
                bad for kind in ("RecordBatch", "Table") for bad in missing(node.body, getattr(there, kind), kind)
            ]
        if one.startswith("_"):
            continue
        if not hasattr(there, one):
            found.append(f"{name}.{one}")
        elif isinstance(node, ast.ClassDef):
            found += missing(node.body, getattr(there, one), f"{name}.{one}")
        elif isinstance(node, ast.FunctionDef) and callable(getattr(there, one)):
            found += [f"{name}.{one}({parameter})" for parameter in unknown(node, getattr(there, one))]
    return found


def unknown(node: ast.FunctionDef, function: Any) -> set[str]:
    """Parameters of a stub's function that the real one doesn't have by name."""
    given = inspect.signature(function).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in given.values()):
        return set()
    named = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    return named - {"self", "cls"} - given.keys()


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.stem)
def test_what_is_said_of_pyarrow_is_there(stub: Path) -> None:
    module = import_module("pyarrow" if stub.stem == "__init__" else f"pyarrow.{stub.stem}")
    assert missing(ast.parse(stub.read_text()).body, module, module.__name__) == []


def native_batches_are_seen(reader: BatchReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Never called: mypy must say of each of these that the batch may be the native module's."""
    for batch in reader.batches(partition):
        batch.slice(0, 1)  # type: ignore[union-attr]
        yield batch  # type: ignore[misc]
