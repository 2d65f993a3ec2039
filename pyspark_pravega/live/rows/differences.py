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
        texts = [json.dumps(json.loads(data), indent=2, ensure_ascii=False).splitlines() for data in (before, after)]
    except ValueError:
        return ()
    lines = list(difflib.unified_diff(*texts, lineterm="", n=2))[2:]
    return tuple(lines[:_MOST_LINES])
