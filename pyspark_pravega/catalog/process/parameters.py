"""What the JVM says becomes the values that a method's parameters are annotated with; what is wrong names its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pyspark.sql.types import DataType, StructType

KIND = "kind"
"""Where one of several classes may be meant, this says its name."""


class ParameterError(Exception):
    """What was said isn't what a parameter takes."""


def arguments(method: Callable[..., Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """A method's arguments.

    Args:
        method: what will be called.
        said: values of JSON, by the names of parameters.

    Returns:
        Objects of the classes that the method takes, by the same names.

    Raises:
        ParameterError: something is missing, unknown, or of another type.
    """
    # Of a method that belongs to an object, what its class has: that one stays the same.
    hints = _hints(getattr(method, "__func__", method))
    return {name: value_of(hints[name], value, name) for name, value in said.items()}


@cache
def _hints(of: Any) -> dict[str, Any]:
    return get_type_hints(of)


def value_of(kind: Any, said: Any, where: str) -> Any:
    """A value of a type.

    Args:
        kind: a type of JSON's, a dataclass or a TypedDict of such, one of Spark's types, or a union of them.
        said: the value of JSON. A union's classes are told by `KIND`.
        where: its place, for messages.

    Raises:
        ParameterError: it is none.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return said
    if origin in (Union, UnionType):
        return _of_union(inner, said, where)
    if origin in (list, tuple, Sequence):
        items = [value_of(inner[0], item, f"{where}[{at}]") for at, item in enumerate(_plain(list, said, where))]
        return tuple(items) if origin is tuple else items
    if origin in (dict, Mapping):
        return {key: value_of(inner[1], item, f"{where}.{key}") for key, item in _plain(dict, said, where).items()}
    if is_typeddict(kind):
        return _fields_of(kind, said, where, kind.__required_keys__)
    if is_dataclass(kind):
        return _object_of(kind, said, where)
    if issubclass(kind, DataType):
        return _plain(kind, _data_type(said, where), where)
    return _plain(kind, said, where)


def _of_union(kinds: Sequence[Any], said: Any, where: str) -> Any:
    if said is None and NoneType in kinds:
        return None
    left = [kind for kind in kinds if kind is not NoneType]
    if len(left) == 1:
        return value_of(left[0], said, where)
    if all(map(is_typeddict, left)):
        meant = [kind for kind in left if kind.__required_keys__ <= _plain(dict, said, where).keys()]
    else:
        left_by_name = {kind.__name__: kind for kind in left}
        name = value_of(str, _plain(dict, said, where).get(KIND), f"{where}.{KIND}")
        said = {key: value for key, value in said.items() if key != KIND}
        if name not in left_by_name:
            raise ParameterError(f"{where} is none of {', '.join(left_by_name)}: {name}")
        meant = [left_by_name[name]]
    if not meant:
        raise ParameterError(f"{where} is none of {', '.join(kind.__name__ for kind in left)}")
    return value_of(meant[0], said, where)


def _object_of(kind: Any, said: Any, where: str) -> Any:
    needed = {one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING}
    return kind(**_fields_of(kind, said, where, needed))


def _fields_of(kind: Any, said: Any, where: str, needed: Set[str]) -> dict[str, Any]:
    hints, given = _hints(kind), _plain(dict, said, where)
    for name in sorted(needed - given.keys()):
        raise ParameterError(f"{where}.{name} is missing")
    for name in sorted(given.keys() - hints.keys()):
        raise ParameterError(f"{where}.{name} isn't known")
    return {name: value_of(hints[name], value, f"{where}.{name}") for name, value in given.items()}


def _plain(kind: Any, said: Any, where: str) -> Any:
    # A flag is no number, though Python's is.
    if isinstance(said, kind) and (kind is bool or not isinstance(said, bool)):
        return said
    if kind is float and type(said) is int:
        return float(said)
    raise ParameterError(f"{where} must be {_NAMES.get(kind, kind.__name__)}, not {_shown(said)}")


_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "a flag", list: "a list", dict: "an object"}


def _shown(said: Any) -> str:
    return "nothing" if said is None else type(said).__name__


def _data_type(said: Any, where: str) -> DataType:
    """A type that is told as Spark's JSON, be it the text or the document."""
    try:
        document = json.loads(said) if isinstance(said, str) else said
        field = {"name": "x", "type": document, "nullable": True, "metadata": {}}
        return StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType
    except Exception as error:
        raise ParameterError(f"{where} is no type of Spark's: {error}") from error
