"""Values as users write them in options, properties and settings: one way to read each kind."""

from __future__ import annotations

import datetime as dt
import re

from pyspark_pravega.errors import ConfigurationError

_SIZE = re.compile(r"([0-9]+)\s*([kmgt]?)i?b?")
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|min|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def flag(key: str, text: str) -> bool:
    """What `true` and `false` stand for.

    Args:
        key: whose value it is, for the message.
        text: the value.

    Raises:
        ConfigurationError: it is neither.
    """
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigurationError(f'"{key}" must be true or false, not "{text}"')
    return word == "true"


def number(key: str, text: str, *, least: int = 0, most: int | None = None, unit: str = "") -> int:
    """A whole number.

    Args:
        key: whose value it is, for the message.
        text: the value.
        least: the smallest one that is allowed.
        most: the largest one; None when there is none.
        unit: what is counted, for the message.

    Raises:
        ConfigurationError: it is none, or not between the two.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits) < least or (most is not None and int(digits) > most):
        between = f"from {least}" if most is None else f"from {least} to {most}"
        raise ConfigurationError(f'"{key}" must be a number{unit and f" of {unit}"} {between}, not "{text}"')
    return int(digits)


def size(key: str, text: str) -> int:
    """A number of bytes, at least one: `1000000`, `64m`, `1 GiB` (units of 1,024).

    Args:
        key: whose value it is, for the message.
        text: the value.

    Raises:
        ConfigurationError: it is none.
    """
    match = _SIZE.fullmatch(text.strip().lower())
    if not match or int(match[1]) < 1:
        raise ConfigurationError(f'"{key}" must be a number of bytes like 1000000 or 64m, not "{text}"')
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")


def duration(key: str, text: str) -> float:
    """A time span in seconds: `30s`, `15m`, `2h`, `500ms`; milliseconds without a unit.

    Args:
        key: whose value it is, for the message.
        text: the value.

    Raises:
        ConfigurationError: it is none.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if not match:
        raise ConfigurationError(f'"{key}" must be a time like 30s, 15m or 500ms, not "{text}"')
    return int(match[1]) * _SECONDS[match[2] or "ms"]


def seconds(key: str, text: str, *, most: float) -> float:
    """A number of seconds above 0, with or without a fraction.

    Args:
        key: whose value it is, for the message.
        text: the value.
        most: what it must be less than.

    Raises:
        ConfigurationError: it is none, or not between the two.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < most:
        raise ConfigurationError(f'"{key}" must be a number of seconds between 0 and {most:g}, not "{text}"')
    return value


def time_ms(key: str, text: str) -> int:
    """A moment in milliseconds since 1970.

    Args:
        key: whose value it is, for the message.
        text: ISO 8601 (UTC where it names no zone), or milliseconds since 1970.

    Raises:
        ConfigurationError: it is neither.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f'option "{key}" must be a time like 2026-11-21T10:00:00Z, or milliseconds since 1970, not "{text}"'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return round(moment.timestamp() * 1000)
