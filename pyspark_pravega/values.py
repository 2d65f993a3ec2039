"""Values as users write them in options, properties and settings: one way to read each kind."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping

from pyspark_pravega.errors import ConfigurationError

_SIZE = re.compile(r"([0-9]+)\s*(?:([kmgtp]?)(?:i?b)?|bytes?)")
_DURATION = re.compile(
    r"([0-9]+)\s*(?:(ms|msecs?|milliseconds?)|(s|m|h|d|w)|(sec|min|hr)s?|(second|minute|hour|day|week)s?)?"
)
_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
"""By a unit's first letter, but for milliseconds."""
_SIZE_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_TIME_UNITS = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
MOST = 2**63 - 1
"""What Pravega and the JVM can count."""
_MOST_SECONDS = 1e9
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""


_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`\s*|([^,]*)),")
_ODD = re.compile(r"[,`{}']|^\s|\s$")
"""What a name may hold that means something in a list of names, or in a pattern of a routing key."""


def quoted(name: str) -> str:
    """A name in backticks, as SQL has it.

    Args:
        name: the name.
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text in quotes, as SQL has it.

    Args:
        text: the text.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def names_of(text: str, *, empty: bool = False) -> tuple[str, ...]:
    """The names in a list that is separated by commas. Those that hold one stand in backticks, as in SQL.

    Args:
        text: the list.
        empty: whether to give those, too, between whose commas nothing stands.
    """
    # Each part of it has a comma behind it then.
    matches = _NAME.finditer(f"{text},")
    names = (match[2].strip() if match[1] is None else match[1].replace("``", "`") for match in matches)
    return tuple(name for name in names if name or empty)


def listed(names: Iterable[str]) -> str:
    """A list of which `names_of` makes the same names, with backticks where they are needed.

    Args:
        names: the names.
    """
    return ",".join(quoted(name) if _ODD.search(name) else name for name in names)


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


def number(key: str, text: str, *, least: int = 0, most: int = MOST, unit: str = "") -> int:
    """A whole number.

    Args:
        key: whose value it is, for the message.
        text: the value.
        least: the smallest one that is allowed.
        most: the largest one.
        unit: what is counted, for the message.

    Raises:
        ConfigurationError: it is none, or not between the two.
    """
    digits = text.strip()
    is_whole = digits.isascii() and digits.isdigit()
    value = _whole(digits) if is_whole else None
    if value is None or not least <= value <= most:
        too_large = is_whole and (value is None or value > most)
        between = f"from {least} to {most}" if too_large or most != MOST else f"from {least}"
        raise ConfigurationError(f'"{key}" must be a number{unit and f" of {unit}"} {between}, not "{text[:60]}"')
    return value


def size(key: str, text: str) -> int:
    """A number of bytes, at least one: `1000000`, `64m`, `1 GiB`, `10 GB` (units of 1,024, as in Spark's settings).

    Args:
        key: whose value it is, for the message.
        text: the value.

    Raises:
        ConfigurationError: it is none.
    """
    value = _bytes(text)
    if value is None or not 1 <= value <= MOST:
        raise ConfigurationError(f'"{key}" must be a number of bytes like 1000000, 64m or 10 GB, not "{text[:60]}"')
    return value


def duration(key: str, text: str) -> float:
    """A time span in seconds: `30s`, `15m`, `2h`, `7 days`, `500ms`; milliseconds without a unit.

    Args:
        key: whose value it is, for the message.
        text: the value.

    Raises:
        ConfigurationError: it is none.
    """
    value = _milliseconds(text)
    if value is None or value > _MOST_SECONDS * 1000:
        raise ConfigurationError(f'"{key}" must be a time like 30s, 15m, 7 days or 500ms, not "{text[:60]}"')
    return value / 1000


def time_or_size(key: str, text: str) -> tuple[int | None, int | None]:
    """A time span in milliseconds, or a number of bytes, as of `duration` and `size`; the unit tells which.

    Args:
        key: whose value it is, for the message.
        text: the value.

    Returns:
        The one and None, or None and the other.

    Raises:
        ConfigurationError: it is neither, or might be both.
    """
    milliseconds, octets = _milliseconds(text), _bytes(text)
    if milliseconds is not None and octets is not None:
        raise ConfigurationError(
            f'"{key}" = "{text[:60]}" may be a time or a size: write a unit of one of them, as in "15 min" or "15 MB"'
        )
    amount = milliseconds if octets is None else octets
    if amount is None or amount > MOST:
        raise ConfigurationError(f'"{key}" must be a time or a size like 7 days, 12h or 10 GB, not "{text[:60]}"')
    return milliseconds, octets


def size_text(octets: int) -> str:
    """A number of bytes as `size` reads it, in the largest unit of which it is a multiple.

    Args:
        octets: the number, at least 1.
    """
    return _in_units(octets, _SIZE_UNITS)


def duration_text(milliseconds: int) -> str:
    """A time span as `duration` reads it, in the largest unit of which it is a multiple.

    Args:
        milliseconds: how long, at least 1.
    """
    return _in_units(milliseconds, _TIME_UNITS)


def _bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip().lower())
    amount = _whole(match[1]) if match else None
    return None if match is None or amount is None else amount << 10 * " kmgtp".index(match[2] or " ")


def _milliseconds(text: str) -> int | None:
    match = _DURATION.fullmatch(text.strip().lower())
    amount = _whole(match[1]) if match else None
    if match is None or amount is None:
        return None
    unit = match[3] or match[4] or match[5]
    return amount * (_MS[unit[0]] if unit else 1)


def _in_units(amount: int, units: Mapping[str, int]) -> str:
    name, unit = next((name, unit) for name, unit in reversed([*units.items()]) if amount % unit == 0)
    return f"{amount // unit} {name}"


def seconds(key: str, text: str, *, most: float) -> float:
    """A time span above 0, in seconds: as of `duration`, but that a number without a unit is one of seconds.

    Args:
        key: whose value it is, for the message.
        text: the value; a number may have a fraction.
        most: what it must be less than.

    Raises:
        ConfigurationError: it is none, or not between the two.
    """
    try:
        value = float(text)
    except ValueError:
        value = (_milliseconds(text) or 0) / 1000
    if not 0 < value < most:
        raise ConfigurationError(
            f'"{key}" must be seconds, or a time like 2 min, above 0 and below {most:g} s, not "{text[:60]}"'
        )
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
    wrong = ConfigurationError(
        f'option "{key}" must be a time like 2026-11-21T10:00:00Z, or milliseconds since 1970, not "{text[:60]}"'
    )
    if text.isascii() and text.isdigit():
        milliseconds = _whole(text)
        if milliseconds is None or milliseconds > _LAST_MS:
            raise wrong
        return milliseconds
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise wrong from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return round(moment.timestamp() * 1000)


def _whole(digits: str) -> int | None:
    """A number of digits; None where no counter holds it. Python refuses to read thousands of digits."""
    return int(digits) if len(digits) <= len(str(MOST)) else None
