"""Days and times of ISO 8601 in text, of all years that Arrow's types can hold.

A year from 0 to 9999 has four digits; another one has a sign and as many as it needs, as Java's `Instant` and
`LocalDate` write and read it. Source: the calendar's cycle of 400 years has 146,097 days; counting from 1 March puts
leap days last.
"""

from __future__ import annotations

import datetime
import re

YEAR = r"(?:\d{4}|\+\d{5,7}|-\d{4,7})"
_DAY = re.compile(rf"({YEAR})-(\d\d)-(\d\d)", re.ASCII)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_LAST_DAY = datetime.date.max.toordinal()
_MICROS = 86_400_000_000
_LONGEST = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_of(text: str) -> int | None:
    """Days since 1970.

    Args:
        text: as `2024-01-31`, `+10000-01-01` or `-0044-03-15`.

    Returns:
        None where the text isn't a day of the (proleptic) Gregorian calendar.
    """
    match = _DAY.fullmatch(text)
    if match is None or match[1] == "-" + "0" * (len(match[1]) - 1):
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not 1 <= month <= 12:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _LONGEST[month - 1] + (leap and month == 2):
        return None
    shifted = year - (month <= 2)
    cycle, of_cycle = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return cycle * 146_097 + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + of_year - 719_468


def day_text(days: int) -> str:
    """A day's text.

    Args:
        days: since 1970.
    """
    if 1 <= days + _EPOCH_DAY <= _LAST_DAY:
        return datetime.date.fromordinal(days + _EPOCH_DAY).isoformat()
    cycle, of_cycle = divmod(days + 719_468, 146_097)
    year = (of_cycle - of_cycle // 1460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += cycle * 400 + (month <= 2)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def moment_text(micros: int) -> str:
    """A moment's text, without a zone; with six digits behind the seconds, or none.

    Args:
        micros: microseconds since 1970.
    """
    days, of_day = divmod(micros, _MICROS)
    seconds, fraction = divmod(of_day, 10**6)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{day_text(days)}T{hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{fraction:06d}" if fraction else text
