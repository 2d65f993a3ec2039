"""What DESCRIBE TABLE EXTENDED and SHOW TABLE EXTENDED say of a table or view."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

_DETAILS = ("# Detailed Table Information", "# Detailed View Information")
_DEFAULTS, _CONSTRAINTS = "# Column Default Values", "# Constraints"
_KEY = re.compile(r"PRIMARY KEY \((.*)\)")
_CHECK = re.compile(r"CHECK \((.*)\) (?:NOT )?ENFORCED", re.DOTALL)
_NAME = re.compile(r"`((?:[^`]|``)+)`|([^,\s`]+)")
_NOT_NULL = re.compile(r" \|-- (.*): .* \(nullable = false\)")


@dataclass(frozen=True, kw_only=True)
class Description:
    """A table or view."""

    columns: list[tuple[str, str, str | None]]
    """Each one's name, type as Spark writes it, and comment."""
    details: dict[str, str] = field(default_factory=dict)
    """Such as `Comment` and `View Text`."""
    defaults: dict[str, str] = field(default_factory=dict)
    """Expressions, by the columns' names."""
    key: tuple[str | None, list[str]] = (None, [])
    """The primary key's name and columns."""
    checks: dict[str, str] = field(default_factory=dict)
    """The conditions of CHECK constraints, by their names."""


def description_of(rows: Iterable[tuple[str, str, str | None]]) -> Description:
    """What DESCRIBE TABLE EXTENDED has answered.

    Args:
        rows: of three texts each.
    """
    left = list(rows)
    columns = list(takewhile(lambda row: row[0] and not row[0].startswith("# "), left))
    sections: dict[str, dict[str, tuple[str, str | None]]] = {}
    section: dict[str, tuple[str, str | None]] = {}
    for name, second, third in left[len(columns) :]:
        if name.startswith("# "):
            section = sections.setdefault(name, {})
        elif name:
            section[name] = (second, third)
    constraints = {name: text for name, (text, _) in sections.get(_CONSTRAINTS, {}).items()}
    key: tuple[str | None, list[str]] = (None, [])
    checks = {}
    for name, text in constraints.items():
        if match := _KEY.match(text):
            key = (name, names_in(match[1]))
        elif match := _CHECK.match(text):
            checks[name] = match[1]
    return Description(
        columns=columns,
        details={name: text for title in _DETAILS for name, (text, _) in sections.get(title, {}).items()},
        defaults={name: text or "" for name, (_, text) in sections.get(_DEFAULTS, {}).items()},
        key=key,
        checks=checks,
    )


def names_in(columns: str) -> list[str]:
    """The names of columns, of a list as a key has it.

    Args:
        columns: with commas, quoted where a name is no word.
    """
    return [quoted.replace("``", "`") or plain for quoted, plain in _NAME.findall(columns)]


def not_null(information: str) -> set[str]:
    """The columns that have no NULLs.

    Args:
        information: what SHOW TABLE EXTENDED has answered of the table.
    """
    return {match[1] for match in map(_NOT_NULL.fullmatch, information.splitlines()) if match}


def pattern_of(name: str) -> str:
    """A pattern of SHOW TABLE EXTENDED that fits a name, and perhaps others.

    Args:
        name: the table's.
    """
    return re.sub(r"\W", "*", name, flags=re.ASCII)
