"""The Java side of the catalog process's protocol says and reads what the methods take and return."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from pyspark_pravega.catalog.process import messages
from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.catalog.process.protocol import call
from pyspark_pravega.settings import Settings

# Nothing is contacted.
METHODS = CatalogMethods(Settings.resolve({"controller-uri": "tcp://nowhere:9090"}, environ={})).by_name
SIGNATURES = {name: inspect.signature(method) for name, method in METHODS.items()}
JAVA = sorted((Path(__file__).parents[2] / "jvm" / "pyspark" / "pravega").glob("*.java"))
CALLS = re.compile(r"\b(?:call|callAgain|begin|ask|about|define|end|new CatalogProcess\.Resumption)\(")
ADDED = {
    # What a class's own helpers put to what its calls say.
    "PravegaCatalog.java": {"namespace", "table", "schema", "transforms", "properties", "checks"},
    "PravegaMicroBatchStream.java": {"source"},
    "PravegaWrite.java": {"writer", "messages"},
    "PravegaStreamingWrite.java": {"writer", "messages"},
}
OWN = {"PravegaTable.java": {"routing-key", "segments", "replaces"}, "CatalogProcess.java": {"options", "session"}}
"""Names in properties, and in what the class itself has made."""
ENVELOPE = {"id", "error", "result"}


def arguments(source: str, start: int) -> list[str]:
    """The arguments of the call whose parenthesis has just opened."""
    parts, depth, quoted, begin = [], 0, False, start
    for at in range(start, len(source)):
        letter = source[at]
        if letter == '"' and source[at - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{":
            depth += 1
        elif letter in ")]}" and depth:
            depth -= 1
        elif (letter == "," and not depth) or letter == ")":
            parts.append(source[begin:at].strip())
            begin = at + 1
            if letter == ")":
                return parts
    raise AssertionError("a call without an end")


def java_calls() -> Iterator[tuple[str, str, set[str]]]:
    """Where Java calls a method, which one, and the names of the arguments that stand there."""
    for path in JAVA:
        source = path.read_text()
        for match in CALLS.finditer(source):
            parts = arguments(source, match.end())
            at = next((at for at, part in enumerate(parts) if part.strip('"') in METHODS and part[0] == '"'), None)
            if at is None:
                continue
            names = [part.strip('"') for part in parts[at + 1 :] if re.fullmatch(r'"\w+"', part)]
            yield path.name, parts[at].strip('"'), set(names)


def parameters(method: str) -> tuple[set[str], set[str]]:
    """All parameters of a method, and those that must be there."""
    named = SIGNATURES[method].parameters
    return set(named), {name for name, parameter in named.items() if parameter.default is inspect.Parameter.empty}


def test_java_calls_each_method_with_the_arguments_that_it_takes() -> None:
    called = set()
    for file, method, names in java_calls():
        called.add(method)
        known, required = parameters(method)
        # In `definition` of a view, of TableInfo and so on there are no strings that could be taken for names.
        assert names <= known, f"{file}: {method} takes no {', '.join(sorted(names - known))}"
        missing = required - names - ADDED.get(file, set())
        assert not missing, f"{file}: {method} wants {', '.join(sorted(missing))}"
    assert called == set(METHODS), "methods that Java never calls"


def test_java_reads_only_what_answers_hold() -> None:
    results = [value for value in vars(messages).values() if isinstance(value, type) and hasattr(value, "__total__")]
    known = ENVELOPE.union(*(get_type_hints(result) for result in results))
    for path in JAVA:
        read = set(re.findall(r'\.(?:get|has)\("(\w+)"\)', path.read_text()))
        own = {
            "PravegaTable.java": {"routing-key", "segments", "replaces"},
            "CatalogProcess.java": {"options", "session"},
            # What Spark's runner calls its counts.
            "ColumnarReaderFactory.java": {"pythonNumRowsReceived", "pythonDataReceived"},
        }
        assert read - known - own.get(path.name, set()) == set(), path.name


def test_methods_take_and_return_values_of_json() -> None:
    """Also those that are passed on: what the JVM doesn't have can't be asked of it."""
    plain = {str, int, bool, float, type(None), Any}

    def is_plain(kind: Any) -> bool:
        kind = getattr(kind, "__value__", kind)
        if kind in plain or is_typeddict(kind) or kind is NoReturn:
            return True
        origin, arguments = get_origin(kind), get_args(kind)
        return origin in (list, dict, Union, UnionType, Sequence, Mapping) and all(map(is_plain, arguments))

    for name, method in METHODS.items():
        hints = get_type_hints(method)
        assert hints.keys() >= {*SIGNATURES[name].parameters, "return"}, name
        assert {hint: kind for hint, kind in hints.items() if not is_plain(kind)} == {}, name


@pytest.mark.parametrize(
    ("method", "params"),
    [("planEverything", {}), ("listTables", {}), ("listTables", {"namespace": ["a"], "also": 1}), ("answered", {})],
)
def test_a_jar_of_another_version_is_told_so(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"{method}.*the jar on Spark's class path.*different versions"):
        call(METHODS, method, params)
