"""Every type of docs/types.md, nested in each other, with extreme values and NULL at each level.

A table is a list of columns; each is a type and a SQL expression of `id` that gives its value in the row `id`.
"""

from __future__ import annotations

from dataclasses import dataclass

from since import is_missing

LEAVES = {
    "bo": ("BOOLEAN", ["true", "false"]),
    "i8": ("TINYINT", ["-128Y", "127Y", "0Y"]),
    "i16": ("SMALLINT", ["-32768S", "32767S", "0S"]),
    "i32": ("INT", ["-2147483648", "2147483647", "0", "17"]),
    "i64": ("BIGINT", ["-9223372036854775808L", "9223372036854775807L", "0L", "1L"]),
    "f": ("FLOAT", ["float('NaN')", "float('-Infinity')", "-0.0F", "float('3.4028235E38')", "float('1.4E-45')",
                   "0.1F"]),
    "d": ("DOUBLE", ["double('NaN')", "double('Infinity')", "-0.0D", "double('1.7976931348623157E308')",
                     "double('4.9E-324')", "0.1D"]),
    "de": ("DECIMAL(12,2)", ["-9999999999.99BD", "9999999999.99BD", "0.00BD", "0.01BD"]),
    "hu": ("DECIMAL(38,10)", [f"{sign}{'9' * 28}.{'9' * 10}BD" for sign in ("", "-")] + ["0.0000000001BD"]),
    "s": ("STRING", ["''", "'ü€😀'", "repeat('long ', 40)", "'\"quoted\" \\\\ and\\nbroken'"]),
    "c": ("CHAR(3)", ["'abc'", "'äöü'"]),
    "v": ("VARCHAR(5)", ["''", "'vwxyz'", "'ßßßßß'"]),
    "bi": ("BINARY", ["X''", "X'00FF7F80'", "CAST(repeat('b', 90) AS BINARY)"]),
    "da": ("DATE", ["DATE'0002-01-01'", "DATE'9998-12-31'", "DATE'1969-12-31'"]),
    "ts": ("TIMESTAMP", ["TIMESTAMP'0002-01-01 00:00:00.000001Z'", "TIMESTAMP'9998-12-31 23:59:59.999999Z'",
                         "TIMESTAMP'1969-12-31 23:59:59.999999Z'"]),
    "nt": ("TIMESTAMP_NTZ", ["TIMESTAMP_NTZ'0002-01-01 00:00:00.000001'", "TIMESTAMP_NTZ'9998-12-31 23:59:59.999999'",
                             "TIMESTAMP_NTZ'1969-12-31 23:59:59'"]),
    "iv": ("INTERVAL DAY TO SECOND", ["INTERVAL '-106751991 04:00:54.775807' DAY TO SECOND",
                                      "INTERVAL '0 00:00:00.000001' DAY TO SECOND"]),
    "ih": ("INTERVAL HOUR TO MINUTE", ["INTERVAL '25:01' HOUR TO MINUTE", "INTERVAL '-0:01' HOUR TO MINUTE"]),
    "ti": ("TIME(6)", ["TIME'00:00:00'", "TIME'23:59:59.999999'"]),
    "tm": ("TIME(3)", ["CAST(TIME'12:34:56.789' AS TIME(3))", "CAST(TIME'23:59:59.999' AS TIME(3))"]),
    "va": ("VARIANT", ["parse_json('{\"a\": [1.25, \"x\", {\"c\": null}], \"é\": -3}')", "parse_json('\"text\"')",
                       "parse_json('[]')"]),
}  # fmt: skip
"""Each type that isn't made of others, with its extreme values."""
if is_missing("4.1"):
    del LEAVES["ti"], LEAVES["tm"]

MAP_KEYS = {
    "bo": ["true", "false"],
    "i8": ["-128Y", "5Y"],
    "i32": ["-2147483648", "2147483647"],
    "i64": ["0L", "9223372036854775807L"],
    "d": ["0.5D", "-1.5D"],
    "de": ["1.50BD", "-9999999999.99BD"],
    "bi": ["X''", "X'00FF'"],
    "da": ["DATE'2024-02-29'", "DATE'1969-12-31'"],
    "ts": ["TIMESTAMP'1969-12-31 23:59:59.999999Z'", "TIMESTAMP'2024-02-29 12:00:00Z'"],
    "nt": ["TIMESTAMP_NTZ'1969-12-31 23:59:59'", "TIMESTAMP_NTZ'2024-02-29 12:00:00'"],
}
"""Types that keys of maps are tried with, beside STRING."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    """As CREATE TABLE has it; with NOT NULL where the column has it."""
    value: str


def leaf(name: str, shift: int, *, null: bool = True) -> str:
    """One of a type's extreme values, or NULL, chosen by `id` and the shift."""
    kind, values = LEAVES[name]
    values = [*values, "NULL"] if null else values
    # CASE, because arrays of values of some types lose their length or precision.
    whens = " ".join(f"WHEN {number} THEN {value}" for number, value in enumerate(values))
    bare = kind if not kind.startswith(("CHAR", "VARCHAR")) else "STRING"
    return f"CAST(CASE pmod(id + {shift}, {len(values)}) {whens} END AS {bare})"


def all_leaves(shift: int, *, null: bool = True) -> str:
    return ", ".join(f"'{name}', {leaf(name, shift + at, null=null)}" for at, name in enumerate(LEAVES))


def or_null(value: str, every: int, rest: int, *, null: bool = True) -> str:
    return f"IF(pmod(id, {every}) = {rest}, NULL, {value})" if null else value


def columns(table_format: str) -> list[Column]:
    """The columns of a table that crosses all types, as far as the format has a place for them.

    Protobuf has no null within lists and maps, none in their place, and no lists within lists or as values of maps.
    """
    within = table_format != "protobuf"
    names = list(LEAVES)
    fields = ", ".join(f"{name}: {LEAVES[name][0]}" for name in names)
    required = ", ".join(f"{name}: {LEAVES[name][0]} NOT NULL" for name in names)
    row = f"named_struct({all_leaves(3)})"
    full = f"named_struct({all_leaves(5, null=False)})"

    def listed(name: str, shift: int) -> str:
        first = leaf(name, shift, null=False)
        many = f"array({first}, {leaf(name, shift + 1, null=within)})"
        return f"CASE pmod(id + {shift}, 4) WHEN 0 THEN array() WHEN 1 THEN array({first}) ELSE {many} END"

    lists = ", ".join(f"{name}: ARRAY<{LEAVES[name][0]}>" for name in names)
    list_values = ", ".join(
        f"'{name}', {or_null(listed(name, at), 9, at % 9, null=within)}" for at, name in enumerate(names)
    )
    list_of = {
        name: f"ARRAY<{LEAVES[name][0]}>" if within else f"STRUCT<l: ARRAY<{LEAVES[name][0]}>>" for name in names
    }

    def listed_value(name: str, at: int) -> str:
        return listed(name, at) if within else f"named_struct('l', {listed(name, at)})"

    def mapped(first: str, second: str) -> str:
        """A map of both entries. In Protobuf entries have no order, and so one of them makes the map."""
        return f"map({first}, {second})" if within else f"IF(pmod(id, 2) = 0, map({first}), map({second}))"

    maps = ", ".join(f"{name}: MAP<STRING, {list_of[name]}>" for name in names)
    map_values = []
    for at, name in enumerate(names):
        later = or_null(listed_value(name, at + 1), 7, 0, null=within)
        entries = mapped(f"'first', {listed_value(name, at)}", f"concat('ü', id), {later}")
        map_values.append(f"'{name}', IF(pmod(id + {at}, 5) = 0, map(), {entries})")
    keyed = []
    for name, (first, second) in MAP_KEYS.items():
        inner = or_null("named_struct('z', concat('z', id))", 4, 1)
        entry = or_null(f"named_struct('x', {leaf(name, 1)}, 'y', named_struct('z', NULL))", 3, 0, null=within)
        keyed.append(
            Column(
                f"k_{name}",
                f"MAP<{LEAVES[name][0]}, STRUCT<x: {LEAVES[name][0]}, y: STRUCT<z: STRING>>>",
                mapped(f"{first}, named_struct('x', {leaf(name, 0)}, 'y', {inner})", f"{second}, {entry}"),
            )
        )
    return [
        Column("id", "BIGINT NOT NULL", "id"),
        *(Column(name, LEAVES[name][0], leaf(name, at)) for at, name in enumerate(names)),
        *(
            Column(f"n_{name}", f"{LEAVES[name][0]} NOT NULL", leaf(name, at, null=False))
            for at, name in enumerate(names)
        ),
        Column(
            "deep",
            f"STRUCT<a: STRUCT<b: STRUCT<{fields}>, x: INT>, y: STRING>",
            or_null(
                "named_struct('a', "
                + or_null(f"named_struct('b', {or_null(row, 7, 2)}, 'x', int(id))", 7, 1)
                + ", 'y', concat('y', id))",
                7,
                0,
            ),
        ),
        Column("sure", f"STRUCT<a: STRUCT<b: STRUCT<{required}> NOT NULL> NOT NULL> NOT NULL",
               f"named_struct('a', named_struct('b', {full}))"),
        Column("lists", f"STRUCT<{lists}>", or_null(f"named_struct({list_values})", 6, 5)),
        Column(
            "rows",
            f"ARRAY<STRUCT<{fields}, inner: ARRAY<STRUCT<p: INT, q: STRING>>>>",
            or_null(
                f"IF(pmod(id, 5) = 0, array(), array("
                f"named_struct({all_leaves(1)}, 'inner', array(named_struct('p', int(id), 'q', string(NULL)))), "
                + or_null(f"named_struct({all_leaves(2)}, 'inner', array())", 5, 2, null=within)
                + "))",
                8,
                7,
                null=within,
            ),
        ),
        Column(
            "named",
            f"MAP<STRING, STRUCT<{fields}, m: MAP<STRING, BIGINT>>>",
            or_null(
                mapped(
                    f"'one', named_struct({all_leaves(4)}, 'm', map('a', id))",
                    "concat('t', id), " + or_null(f"named_struct({all_leaves(6)}, 'm', map())", 5, 3, null=within),
                ),
                8,
                3,
                null=within,
            ),
        ),
        Column("maps", f"STRUCT<{maps}>", or_null(f"named_struct({', '.join(map_values)})", 6, 2)),
        *keyed,
    ]  # fmt: skip
