"""What a namespace holds beside streams: its own properties, and views.

They lie in a key-value table of the scope, which is made with the first of them:

| key (16 bytes) | value (JSON) |
|---|---|
| 0, then zeros | the namespace's properties |
| 1, then a hash of the view's name | the view, with its name |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from pyspark_pravega.client import Client
from pyspark_pravega.client.tables import NOT_EXISTS, KeyValueTable
from pyspark_pravega.errors import AuthenticationError, ConflictError, KeyValueTableNotFoundError, PravegaError

STORE = "spark.catalog"
"""The key-value table's name. Streams and their commit logs have others."""
KEY_BYTES = 16
FORMAT = 1
_PROPERTIES = bytes(KEY_BYTES)
_VIEWS = b"\1"

Document = dict[str, Any]


class NamespaceStore:
    """What a scope keeps for the catalog. Safe for use by several threads.

    To who has no rights to the key-value table it is as if it were empty.
    """

    def __init__(self, client: Client, scope: str) -> None:
        """Use a scope's store; it is made when the first thing is put into it.

        Args:
            client: the cluster.
            scope: the scope, which must be there.
        """
        self._client, self._scope = client, scope

    def properties(self) -> dict[str, str]:
        """The namespace's properties."""
        found = self._get(_PROPERTIES)
        return dict(found["properties"]) if found else {}

    def change_properties(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        """Change the namespace's properties.

        Args:
            change: makes the new ones of the present ones; it may be called several times.
        """

        def changed(before: Document | None) -> Document:
            return {"properties": change(dict(before["properties"]) if before else {})}

        self._change(_PROPERTIES, changed)

    def view(self, name: str) -> Document | None:
        """A view's definition.

        Args:
            name: the view.
        """
        found = self._get(_view_key(name))
        return found["view"] if found else None

    def views(self) -> list[str]:
        """The names of all views."""
        table = self._open(to_read=True)
        if table is None:
            return []
        return [_load(entry.value, self._scope)["name"] for _, entry in table.iterate_entries(prefix=_VIEWS)]

    def change_view(self, name: str, change: Callable[[Document | None], Document]) -> None:
        """Make or change a view.

        Args:
            name: the view.
            change: makes the new definition of the present one, or of None; what it raises ends it.
        """

        def changed(before: Document | None) -> Document:
            return {"name": name, "view": change(before["view"] if before else None)}

        self._change(_view_key(name), changed)

    def drop_view(self, name: str) -> bool:
        """Remove a view.

        Returns:
            False when there was none.
        """
        table, key = self._open(), _view_key(name)
        while table is not None and (entry := table.get([key])[0]) is not None:
            try:
                table.remove([(key, entry.version)])
                return True
            except ConflictError:
                continue
        return False

    def delete(self) -> None:
        """Remove the store with all that is in it."""
        self._client.controller.delete_key_value_table(self._scope, STORE)

    def _get(self, key: bytes) -> Document | None:
        table = self._open(to_read=True)
        entry = table.get([key])[0] if table is not None else None
        return None if entry is None else _load(entry.value, self._scope)

    def _change(self, key: bytes, change: Callable[[Document | None], Document]) -> None:
        table = self._open()
        if table is None:
            change(None)
            self._client.controller.create_key_value_table(self._scope, STORE, partitions=1, key_bytes=KEY_BYTES)
            table = KeyValueTable(self._client.pool, self._scope, STORE)
        while True:
            entry = table.get([key])[0]
            document = change(None if entry is None else _load(entry.value, self._scope))
            value = json.dumps({"format": FORMAT, **document}, separators=(",", ":")).encode()
            try:
                table.put([(key, NOT_EXISTS if entry is None else entry.version, value)])
                return
            except ConflictError:
                continue

    def _open(self, *, to_read: bool = False) -> KeyValueTable | None:
        try:
            return KeyValueTable(self._client.pool, self._scope, STORE)
        except KeyValueTableNotFoundError:
            return None
        except AuthenticationError:
            # Pravega tells where a key-value table is only to who may change it; whether there is one it tells nobody.
            if to_read:
                return None
            raise


def _view_key(name: str) -> bytes:
    return _VIEWS + hashlib.blake2b(name.encode(), digest_size=KEY_BYTES - 1).digest()


def _load(value: bytes, scope: str) -> Document:
    document: Document = json.loads(value)
    if document.get("format") != FORMAT:
        raise PravegaError(
            f'what scope "{scope}" keeps for catalogs was written by another version of pyspark-pravega '
            f"(format {document.get('format')}, known is {FORMAT}): upgrade this one"
        )
    return document
