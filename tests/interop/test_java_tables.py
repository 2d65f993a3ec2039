"""Key-value tables of several partitions, with secondary keys: made, written, changed and read by turns with Java."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client.key_value.table import NOT_EXISTS, KeyValueTable
from pyspark_pravega.errors import ConflictError
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

ROWS, SECONDARIES = 60, 3


def key(row: int, secondary: int) -> bytes:
    return struct.pack(">I", row) + secondary.to_bytes(3)


@pytest.fixture
def table(catalog: Catalog, scope: str, java: JavaPrograms) -> Iterator[KeyValueTable]:
    java.run("interop.KvtTool", "create", scope, "t", "5", "4", "3")
    yield KeyValueTable(catalog.client.pool, scope, "t")
    catalog.client.controller.delete_key_value_table(scope, "t")


def test_each_finds_and_changes_what_the_other_has_written(
    table: KeyValueTable, scope: str, java: JavaPrograms
) -> None:
    java.run("interop.KvtTool", "write", scope, "t", "4", str(ROWS), str(SECONDARIES))
    keys = [key(row, s) for row in range(ROWS) for s in range(SECONDARIES)]

    entries = table.get(keys)
    assert [entry and entry.value for entry in entries] == [
        b"java %d.%d" % (row, s) for row in range(ROWS) for s in range(SECONDARIES)
    ]
    assert [k for k, _ in table.iterate_keys()] == sorted(keys)

    ours = [key(row, s) for row in range(ROWS, 2 * ROWS) for s in range(SECONDARIES)]
    for row in range(ROWS, 2 * ROWS):
        table.put([(key(row, s), NOT_EXISTS, b"ours %d.%d" % (row, s)) for s in range(SECONDARIES)])
    changed = keys[:20]
    for k, entry in zip(changed, entries, strict=False):
        assert entry is not None
        table.put([(k, entry.version, entry.value + b"?")])

    asked = "\n".join(k.hex() for k in [*changed, *ours])
    printed = java.run("interop.KvtTool", "get", scope, "t", "4", stdin=asked).splitlines()
    for k, line, entry in zip([*changed, *ours], printed, table.get([*changed, *ours]), strict=True):
        assert entry is not None
        name, version, value = line.split(" ", 2)
        assert (name, value.encode("latin-1")) == (k.hex(), entry.value)
        assert version.split(":")[1] == str(entry.version)

    versions = java.run("interop.KvtTool", "update", scope, "t", "4", stdin=asked).splitlines()
    after = table.get([*changed, *ours])
    assert [version.split(":")[1] for version in versions] == [str(entry and entry.version) for entry in after]
    assert after[0] is not None
    assert after[0].value == b"java 0.0?!"
    first = entries[0]
    assert first is not None
    with pytest.raises(ConflictError):
        table.put([(keys[0], first.version, b"stale")])

    everything = [line.split(" ")[0] for line in java.run("interop.KvtTool", "all", scope, "t").splitlines()]
    assert everything == [k.hex() for k, _ in table.iterate_keys()]
