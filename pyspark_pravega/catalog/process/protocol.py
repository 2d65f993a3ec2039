"""How Spark's JVM and the catalog process talk.

A request is `{"id": n, "method": "planScan", "params": {...}}`, its answer `{"id": n, "result": ...}` or
`{"id": n, "error": {"kind": ..., "condition": ..., "sqlState": ..., "message": ...}}`. A long answer comes as several
documents `{"id": n, "piece": ..., "last": ...}`, whose pieces together are its text.

A method's signature stands in Python once: in `methods`, or where the method is passed on to, as `methods` says.
`plan_scan` there is `planScan` on the wire, parameters have one name on both sides, and their types say what is taken:
`parameters` makes that of what was said, and names what is wrong. `tests/catalog/test_protocol.py`
holds the Java side against it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark_pravega.catalog.process.parameters import ParameterError, arguments

Method = Callable[..., Any]
"""Takes values that `parameters` makes, and returns some of JSON's types."""


def wire_name(method: str) -> str:
    """A method's name on the wire: `planScan` for `plan_scan`."""
    return re.sub(r"_(.)", lambda letter: letter.group(1).upper(), method)


def call(methods: Mapping[str, Method], method: str, params: Mapping[str, Any]) -> Any:
    """Call a method as a request has it.

    Args:
        methods: by their names on the wire.
        method: which one.
        params: its arguments by name, of JSON's types.

    Returns:
        Its result, of JSON's types.

    Raises:
        ValueError: there is no such method, or it doesn't take such arguments: jar and package are of two versions.
        PravegaError: it has failed.
    """
    try:
        function = methods[method]
        inspect.signature(function).bind(**params)
        values = arguments(function, params)
    except (KeyError, TypeError, ParameterError) as error:
        raise ValueError(
            f"method {method}({', '.join(params)}) isn't known here ({error}): the jar on Spark's class path and the "
            "Python package are of different versions, install both anew"
        ) from error
    return function(**values)
