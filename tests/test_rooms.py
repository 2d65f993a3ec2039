"""The house as docs/architecture.md draws it: small rooms, reached through their doors, and no circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

PACKAGE = "pyspark_pravega"
ROOT = Path(__file__).parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / PACKAGE).rglob("*.py")
}
ROOMS = sorted(module for module, path in MODULES.items() if path.name == "__init__.py")
SEVERAL_FACES = {f"{PACKAGE}.serde.schemas"}
"""Their modules are faces, because they have things of the same name."""
MAX_MODULES, MAX_LINES = 15, 500


def test_no_room_is_crowded_and_no_module_long() -> None:
    crowded = {room: len(list(MODULES[room].parent.glob("*.py"))) for room in ROOMS}
    assert {room: count for room, count in crowded.items() if count > MAX_MODULES} == {}
    lengths = {module: len(path.read_text().splitlines()) for module, path in MODULES.items()}
    generated = f"{PACKAGE}.client.controller.controller_pb2"
    assert {m: length for m, length in lengths.items() if length > MAX_LINES and m != generated} == {}
    kinds = ("benchmarks/*.py", "jvm/**/*.java", "native/src/*.rs", "tests/**/*.py")
    beside = [path for kind in kinds for path in ROOT.glob(kind)]
    beside_lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in beside}
    assert {path: length for path, length in beside_lengths.items() if length > MAX_LINES} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_says_what_lives_in_it(room: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[room].read_text()))


def circle(graph: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        modules: list[str] = error.args[1]
        return modules
    return None


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for type checkers count, too. Between rooms import-linter looks (`make lint`)."""
    imports = grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)
    assert circle({module: set(imports.find_modules_directly_imported_by(module)) for module in MODULES}) is None


def deep_imports() -> Iterator[str]:
    """Imports that walk past the door of another room."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(f"{PACKAGE}."):
                continue
            target = node.module or ""
            room = target if target in ROOMS else target.rpartition(".")[0]
            above = f"{target}.".startswith(f"{module}.")
            own = above or f"{module}.".startswith(f"{room}.")
            if target not in ROOMS and room.count(".") >= 2 and room not in SEVERAL_FACES and not own:
                yield f"{module} imports {target}"


def test_other_rooms_are_reached_through_their_faces() -> None:
    assert list(deep_imports()) == []


def test_no_statement_is_made_of_another_one() -> None:
    """A class there says in its constructor which others it needs."""
    room = f"{PACKAGE}.catalog.statements"
    classes = {
        (module, node.name): {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for module, path in MODULES.items()
        if f"{module}.".startswith(f"{room}.")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    names = {name for _, name in classes} | {"Catalog", "CatalogBase"}
    assert {name: bases & names for name, bases in classes.items() if bases & names} == {}


def test_variables_are_named_after_things() -> None:
    """Not after what was done to get them."""
    verbs = {"found", "made", "told", "got"}
    names = [
        f"{module}: {name}"
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        for name in ([node.id] if isinstance(node, ast.Name) else [node.arg] if isinstance(node, ast.arg) else [])
        if name.lstrip("_") in verbs
    ]
    assert names == []
