"""What differs between the texts of two schemas, line by line."""

from __future__ import annotations

import difflib
import json

_MOST_LINES = 200


def difference(before: bytes, after: bytes) -> tuple[str, ...]:
    """The lines of two schemas that differ, with two around them.

    Args:
        before: a schema as the registry keeps it.
        after: the next one.

    Returns:
        Lines that begin with `+`, `-`, a space, or `@@` where some are left out; nothing where they are no text.
    """
    try:
        old, new = _lines(before), _lines(after)
    except ValueError:
        return ()
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    return tuple(lines[:_MOST_LINES])


def _lines(schema: bytes) -> list[str]:
    return json.dumps(json.loads(schema), indent=2, ensure_ascii=False).splitlines()
