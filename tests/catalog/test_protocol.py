"""The Java side of the catalog process's protocol says and reads what the methods take and return."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from pyspark.sql.types import ArrayType, DataType, LongType, StructField, StructType

from pyspark_pravega.catalog.ddl import AddColumn, Bucket, ClusterBy, ColumnPosition, OtherTransform, SetProperty
from pyspark_pravega.catalog.process import answers, messages
from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.catalog.process.parameters import ParameterError, arguments
from pyspark_pravega.catalog.process.protocol import call
from pyspark_pravega.catalog.statements.replacing import StagedReplacement
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.table import Check
from pyspark_pravega.settings import Settings

# Nothing is contacted.
METHODS = CatalogMethods(Settings.resolve({"controller-uri": "tcp://nowhere:9090"}, environ={})).by_name
SIGNATURES = {name: inspect.signature(method) for name, method in METHODS.items()}
JAVA = sorted((Path(__file__).parents[2] / "jvm").rglob("*.java"))
CALLS = re.compile(r"\b(?:call|callAgain|ahead|begin|ask|about|define|end|new CatalogProcess\.Resumption)\(")
ADDED = {
    # What a class's own helpers put to what its calls say.
    "PravegaCatalog.java": {"namespace", "table", "schema", "transforms", "properties", "checks"},
    "TableDefinitions.java": {"namespace", "table", "schema", "transforms", "properties", "checks"},
    "Relations.java": {"namespace", "table"},
    "CheckedReads.java": {"namespace", "table"},
    "PravegaMicroBatchStream.java": {"source"},
    "PravegaWrite.java": {"writer", "messages"},
    "PravegaStreamingWrite.java": {"writer", "messages"},
}
ENVELOPE = {"id", "error", "result"}


def java_arguments(source: str, start: int) -> list[str]:
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
            parts = java_arguments(source, match.end())
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
            "PravegaTable.java": {"routing-key", "segments"},
            "CatalogProcess.java": {"options", "session"},
            # What Spark's runner calls its counts.
            "ColumnarReaderFactory.java": {"pythonNumRowsReceived", "pythonDataReceived"},
        }
        assert read - known - own.get(path.name, set()) == set(), path.name


def is_plain(kind: Any) -> bool:
    """Whether all of a type's values are of JSON's."""
    if kind in (str, int, bool, float, type(None), Any) or is_typeddict(kind) or kind is NoReturn:
        return True
    origin, arguments = get_origin(kind), get_args(kind)
    return origin in (list, dict, Union, UnionType, Sequence, Mapping) and all(map(is_plain, arguments))


def is_told(kind: Any) -> bool:
    """Whether JSON tells a type's values."""
    if is_plain(kind) and get_origin(kind) not in (Union, UnionType):
        return True
    if isinstance(kind, type) and issubclass(kind, DataType):
        return True
    if is_dataclass(kind) or is_typeddict(kind):
        return all(map(is_told, get_type_hints(kind).values()))
    origin, arguments = get_origin(kind), [one for one in get_args(kind) if one not in (type(None), ...)]
    if origin not in (list, tuple, dict, Union, UnionType, Sequence, Mapping):
        return False
    # Which of several is meant can be seen.
    seen = origin not in (Union, UnionType) or len(arguments) == 1
    return all(map(is_told, arguments)) and (
        seen or all(map(is_dataclass, arguments)) or all(map(is_typeddict, arguments))
    )


def test_methods_take_what_json_tells_and_return_values_of_json() -> None:
    """Also those that are passed on: what the JVM doesn't have can't be asked of it."""
    for name, method in METHODS.items():
        hints = get_type_hints(method)
        assert hints.keys() >= {*SIGNATURES[name].parameters, "return"}, name
        assert is_plain(hints.pop("return")), name
        assert {hint: kind for hint, kind in hints.items() if not is_told(kind)} == {}, name


STAGED = StagedReplacement(
    stream=Stream("s", "t"), id="1", properties={"a": "b"}, configuration={}, compatibility=None, schema=None, pinned=3
)
SAID: list[tuple[str, dict[str, Any], Any]] = [
    (
        "alterTable",
        {"changes": [{"kind": "SetProperty", "property": "a", "value": "b"}, {"kind": "ClusterBy", "columns": ["c"]}]},
        [SetProperty(property="a", value="b"), ClusterBy(columns=("c",))],
    ),
    (
        "supportsChange",
        {
            "change": {
                "kind": "AddColumn",
                "column": ["s", "x"],
                "type": '{"type":"array","elementType":"long","containsNull":true}',
                "nullable": False,
                "comment": None,
                "position": {"after": None},
                "default": "1",
            }
        },
        AddColumn(
            column=("s", "x"),
            type=ArrayType(LongType()),
            nullable=False,
            position=ColumnPosition(after=None),
            default="1",
        ),
    ),
    (
        "createTable",
        {
            "transforms": [
                {"kind": "Bucket", "columns": ["a"], "buckets": 3},
                {"kind": "OtherTransform", "name": "days"},
            ]
        },
        [Bucket(columns=("a",), buckets=3), OtherTransform(name="days")],
    ),
    (
        "createTable",
        {"checks": [{"name": "c", "condition": "a > 0", "enforced": False}]},
        [Check(name="c", condition="a > 0", enforced=False)],
    ),
    (
        "createTable",
        {"schema": {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}},
        StructType([StructField("a", LongType())]),
    ),
    (
        "planScan",
        {"predicates": [{"column": "a", "comparison": "IN", "values": [1, "b"]}]},
        [Predicate(column="a", comparison="IN", values=(1, "b"))],
    ),
    (
        "planScan",
        {"position": {"changes": {"from_version": "1", "to_version": None}}},
        {"changes": {"from_version": "1", "to_version": None}},
    ),
    ("commitStaged", {"staged": json.loads(json.dumps(answers.staged(STAGED)))}, STAGED),
]


@pytest.mark.parametrize(("method", "said", "value"), SAID)
def test_what_is_said_becomes_values(method: str, said: dict[str, Any], value: Any) -> None:
    assert list(arguments(METHODS[method], said).values()) == [value]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("alterTable", {"changes": [{"kind": "AddIndex"}]}, r"changes\[0\] is none of SetProperty, .*: AddIndex"),
    ("alterTable", {"changes": [{"property": "a"}]}, r"changes\[0\]\.kind must be a text, not nothing"),
    ("alterTable", {"changes": {}}, "changes must be a list, not dict"),
    ("alterTable", {"changes": [{"kind": "DropConstraint", "name": "c"}]}, r"changes\[0\]\.if_exists is missing"),
    (
        "alterTable",
        {"changes": [{"kind": "RemoveProperty", "property": "a", "value": "b"}]},
        r"changes\[0\]\.value isn't known",
    ),
    (
        "alterTable",
        {"changes": [{"kind": "UpdateColumnType", "column": ["a"], "type": '"lonely"'}]},
        r"changes\[0\]\.type is no type of Spark's",
    ),
    (
        "createTable",
        {"transforms": [{"kind": "Bucket", "columns": ["a", 2], "buckets": 1}]},
        r"transforms\[0\]\.columns\[1\] must be a text, not int",
    ),
    ("createTable", {"schema": "long"}, "schema is no type of Spark's"),
    ("createTable", {"properties": {"a": 1}}, r"properties\.a must be a text, not int"),
    ("planScan", {"limit": True}, "limit must be a whole number, not bool"),
    ("planScan", {"position": {"version": 1}}, "position is none of ChangesText, MomentText"),
]


@pytest.mark.parametrize(("method", "said", "message"), WRONG)
def test_what_is_said_wrongly_is_named(method: str, said: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        arguments(METHODS[method], said)


@pytest.mark.parametrize(
    ("method", "params"),
    [("planEverything", {}), ("listTables", {}), ("listTables", {"namespace": ["a"], "also": 1}), ("answered", {})],
)
def test_a_jar_of_another_version_is_told_so(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"{method}.*the jar on Spark's class path.*different versions"):
        call(METHODS, method, params)
