"""`pravega-spark tail` and `pravega-spark put`: rows as lines of JSON, without Spark."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.client import EventTail, Stream
from pyspark_pravega.connector.key_value import KeyValueDefinition
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import (
    TableDefinition,
)
from pyspark_pravega.connector.write import WriteJob, WritePlan
from pyspark_pravega.errors import (
    ConfigurationError,
    EventEncodeError,
    PravegaError,
    UnsupportedOperationError,
    did_you_mean,
)
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.pandas_later import load_pandas_later
from pyspark_pravega.progress import Bar
from pyspark_pravega.serde import lenient
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.formats import JSON, schema_for
from pyspark_pravega.spark.types import DecimalType, StructType
from pyspark_pravega.sql.commands import add_connection, resolve_settings
from pyspark_pravega.sql.completion import completes_tables
from pyspark_pravega.sql.last_rows import last_entries, last_rows, rows_of_changes
from pyspark_pravega.sql.streams import named_stream, relation_of

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_VERSION = "_commit_version"
_LINES_AT_ONCE = 8192
_WIDEST = 40
"""Characters of a column of the table that people see."""


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands.

    Args:
        subparsers: where to add them.
    """
    tail = subparsers.add_parser(
        "tail",
        description="Prints a table's last rows; of a table with a key those that were changed last. "
        "Example: pravega-spark tail shop.orders -n 5 -f --json",
    )
    completes_tables(tail.add_argument("table", metavar="TABLE", help="namespace.table, or scope/stream"))
    tail.add_argument("-n", type=int, default=10, metavar="ROWS", help="how many rows (default: 10)")
    tail.add_argument("--log", action="store_true", help="of a table with a key the changes, and not its rows")
    tail.add_argument("-f", "--follow", action="store_true", help="go on with the rows that come, until Ctrl-C")
    tail.add_argument("--json", action="store_true", help="as JSON, a line for each row")
    add_connection(tail)
    tail.set_defaults(run=run_tail)
    put = subparsers.add_parser(
        "put",
        description="Writes rows from standard input, a JSON object in each line, in one commit: all of them or none. "
        "Example: pravega-spark put shop.orders < orders.jsonl",
    )
    completes_tables(put.add_argument("table", metavar="TABLE", help="namespace.table, or scope/stream"))
    put.add_argument("--json", action="store_true", help="as one JSON object, on standard output")
    add_connection(put)
    put.set_defaults(run=run_put)


def run_tail(arguments: argparse.Namespace) -> int:
    """Print a table's last rows."""
    load_pandas_later()
    if arguments.n < 0:
        raise ConfigurationError(f"-n must be 0 or more rows, not {arguments.n}")
    definition = _relation(arguments)
    try:
        if isinstance(definition, KeyValueDefinition):
            _tail_entries(definition, arguments)
        else:
            _tail_rows(definition.as_log() if arguments.log else definition, arguments)
    except BrokenPipeError:
        # Who has read enough, as `head` does, isn't an error. Python would still flush at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _tail_rows(definition: TableDefinition, arguments: argparse.Namespace) -> None:
    client, stream = shared_client(definition.settings), definition.stream
    ledger = open_ledger(client, stream)
    snapshot = take_snapshot(client, stream, ledger)
    printer = _Printer(definition, as_json=arguments.json)
    with Bar(f"reading {_name(stream)}", hidden=arguments.json) as progress:
        last = last_rows(definition, snapshot, ledger, arguments.n, progress)
    printer.print_table(last)
    if not arguments.follow:
        return
    events = definition if definition.key is None else definition.as_log()
    with EventTail(client, stream, snapshot.cut) as arrivals:
        for arrived in arrivals:
            decoded = _decoded(events, arrived.payloads, arrived.segment_id)
            if definition.key is not None:
                decoded = rows_of_changes(decoded, definition.key).select(definition.schema.fieldNames())
            if decoded.num_rows:
                printer.print(decoded)


def _tail_entries(definition: KeyValueDefinition, arguments: argparse.Namespace) -> None:
    if arguments.follow or arguments.log:
        raise UnsupportedOperationError(
            f'"{definition.stream}" is a key-value table, which has no history: leave -f and --log out'
        )
    _Printer(definition, as_json=arguments.json).print_table(last_entries(definition, arguments.n))


def run_put(arguments: argparse.Namespace) -> int:
    """Write lines of JSON as rows."""
    load_pandas_later()
    definition = _definition(arguments)
    job = WriteJob(WritePlan.of(definition, WriteOptions()))
    try:
        hidden = arguments.json or sys.stdin.isatty()
        with Bar(f"writing {_name(definition.stream)}", _size(sys.stdin.buffer), hidden=hidden) as progress:
            lines = _counted(sys.stdin.buffer, progress)
            report = job.commit_job([job.write_partition(0, parsed(definition, lines))])
            job.forget_commit()
    except BaseException:
        with suppress(PravegaError):
            job.abort_job([None])
        raise
    name = _name(definition.stream)
    if arguments.json:
        print(json.dumps({"table": name, "rows": report.rows, "bytes": report.bytes}))
        return 0
    rows = "1 row" if report.rows == 1 else f"{report.rows:,} rows"
    print(f"{rows}, {report.bytes:,} bytes of events, committed to {name}", file=sys.stderr)
    return 0


def parsed(definition: TableDefinition, lines: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """Rows of lines of JSON.

    Args:
        definition: what they are to be rows of.
        lines: an object in each; empty lines are passed over.

    Raises:
        EventEncodeError: a line is no row of the table; the message has its number.
    """
    codec, names = json_codec(definition), definition.schema.fieldNames()
    strict = [field.name for field in definition.schema if not field.nullable]
    filled = list(definition.properties.defaults)
    for numbers, texts in _pieces(lines):
        for number, text in zip(numbers, texts, strict=True):
            _check_line(text, number, names, strict, filled)
        try:
            yield codec.decode(pa.array(texts, pa.binary()), names)
        except BadEventError as error:
            raise EventEncodeError(f"line {numbers[error.index]}: {error.reason}") from None


def json_codec(definition: TableDefinition | KeyValueDefinition) -> Codec:
    """What makes lines of JSON of rows, and rows of lines, whatever the table's own format.

    Args:
        definition: the table.
    """
    stream, columns = definition.stream, definition.schema
    schema = schema_for(JSON, columns, name=stream.name, namespace=stream.scope)
    return schema.codec(columns, _NoEncodings(), header=False)


class _NoEncodings:
    """Lines have no headers."""

    def writer_schema(self, encoding_id: int) -> Any:
        raise EventEncodeError(f"a line of JSON can't begin with the header of an event (encoding id {encoding_id})")


class _Printer:
    """Prints rows: as JSON, or as columns for people."""

    def __init__(self, definition: TableDefinition | KeyValueDefinition, *, as_json: bool) -> None:
        self._codec, self._names, self._as_json = json_codec(definition), definition.schema.fieldNames(), as_json
        self._widths = [min(_WIDEST, len(name)) for name in self._names]
        self._scales = scales_of(definition.schema)

    def print_table(self, rows: pa.Table) -> None:
        """The first rows, below the columns' names."""
        texts = [text for batch in rows.to_batches() for text in self._texts(batch)]
        if self._as_json:
            self._print_lines(texts)
            return
        cells = [self._cells(text) for text in texts]
        for row in cells:
            self._widths = [max(width, min(_WIDEST, len(cell))) for width, cell in zip(self._widths, row, strict=True)]
        self._print_lines(map(self._line, [self._names, ["-" * width for width in self._widths], *cells]))

    def print(self, rows: pa.RecordBatch) -> None:
        """Rows that have come since."""
        texts = self._texts(rows)
        self._print_lines(texts if self._as_json else (self._line(self._cells(text)) for text in texts))

    def _print_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(line)
        sys.stdout.flush()

    def _texts(self, rows: pa.RecordBatch) -> list[str]:
        return [text.decode() for text in self._codec.encode(rows).to_pylist()]

    def _cells(self, text: str) -> list[str]:
        values = shown_values(text, self._scales)
        return [_cell(values.get(name)) for name in self._names]

    def _line(self, cells: Sequence[str]) -> str:
        pairs = zip(cells, self._widths, strict=True)
        return "  ".join(
            f"{cell if len(cell) <= width else cell[: width - 1] + '…':{width}}" for cell, width in pairs
        ).rstrip()


def scales_of(columns: StructType) -> dict[str, int]:
    """The decimals among columns, and how many digits they have behind the point.

    Args:
        columns: the columns.
    """
    return {one.name: one.dataType.scale for one in columns if isinstance(one.dataType, DecimalType)}


def shown_values(text: str | bytes, scales: Mapping[str, int]) -> dict[str, Any]:
    """The values of a line of JSON, decimals as SQL shows them: with all digits, which JSON's numbers lose.

    Args:
        text: the line.
        scales: see `scales_of`.
    """
    values: dict[str, Any] = json.loads(text)
    exact = json.loads(text, parse_float=Decimal, parse_int=Decimal) if scales else {}
    for name, scale in scales.items():
        if exact.get(name) is not None:
            values[name] = f"{Decimal(exact[name]):.{scale}f}"
    return values


def _relation(arguments: argparse.Namespace) -> TableDefinition | KeyValueDefinition:
    settings = resolve_settings(arguments)
    return relation_of(settings, named_stream(arguments.table, settings.scope, arguments.catalog))


def _definition(arguments: argparse.Namespace) -> TableDefinition:
    definition = _relation(arguments)
    if isinstance(definition, KeyValueDefinition):
        raise UnsupportedOperationError(
            f'"{definition.stream}" is a key-value table, into which INSERT and MERGE write, in pravega-spark sql'
        )
    return definition


def _decoded(definition: TableDefinition, payloads: pa.Array, segment_id: int) -> pa.RecordBatch:
    try:
        if definition.types is not None and (chosen := definition.types.chosen(payloads)) is not None:
            payloads = payloads.take(pa.array(chosen))
        return lenient.decode(definition.codec, payloads, definition.schema.fieldNames(), definition.mode).batch
    except BadEventError as error:
        raise EventEncodeError(
            f'an event of segment {segment_id} of stream "{definition.stream}" can\'t be decoded: {error.reason}'
        ) from None


def _size(file: IO[bytes]) -> int | None:
    """How many bytes will come; None where that can't be known, as of a pipe."""
    try:
        state = os.fstat(file.fileno())
        return state.st_size - file.tell() if stat.S_ISREG(state.st_mode) else None
    except OSError:  # no file of the system's
        return None


def _counted(lines: Iterable[bytes], progress: Bar) -> Iterator[bytes]:
    for line in lines:
        progress.add(len(line))
        yield line


def _name(stream: Stream) -> str:
    return f"{to_sql(stream.scope)}.{to_sql(stream.name)}"


def _pieces(lines: Iterable[bytes]) -> Iterator[tuple[list[int], list[bytes]]]:
    numbers: list[int] = []
    texts: list[bytes] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            numbers.append(number)
            texts.append(line)
        if len(texts) == _LINES_AT_ONCE:
            yield numbers, texts
            numbers, texts = [], []
    if texts:
        yield numbers, texts


def _check_line(text: bytes, number: int, names: Sequence[str], strict: Sequence[str], filled: Sequence[str]) -> None:
    """Refuse what a reader of events would pass over: whoever writes a line is still there to mend it."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise EventEncodeError(f"line {number} is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise EventEncodeError(f"line {number} is no JSON object, as in {json.dumps(dict.fromkeys(names))}")
    for name in values.keys() - set(names):
        raise EventEncodeError(f'line {number}: "{name}" is not a column{did_you_mean(name, names)}')
    for name in filled:
        if name not in values:
            raise EventEncodeError(
                f'line {number} lacks column "{name}": its DEFAULT is evaluated by SQL only, so give a value'
            )
    for name in strict:
        if values.get(name) is None:
            raise EventEncodeError(f'line {number} lacks column "{name}", which can\'t be null')


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
