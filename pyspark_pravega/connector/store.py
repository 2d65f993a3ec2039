"""What a namespace holds beside streams: its own properties, views, and what key-value tables are in SQL.

They lie in a key-value table of the scope, which is made with the first of them:

| key (16 bytes) | value (JSON) |
|---|---|
| 0, then zeros | the namespace's properties |
| 1, then a hash of the view's name | the view, with its name |
| 2, then a hash of the table's name | what SQL knows of a key-value table, with its name |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from pyspark_pravega.client import Client, KeyValueTable
from pyspark_pravega.connector.log import Content, JsonTable, is_ledger_name
from pyspark_pravega.errors import AuthenticationError, KeyValueTableNotFoundError

STORE = "spark.catalog"
"""The key-value table's name. Streams and their commit logs have others."""
KEY_BYTES = 16
_PROPERTIES = bytes(KEY_BYTES)
_VIEWS, _TABLES = b"\1", b"\2"


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
        document = self._get(_PROPERTIES)
        return dict(document["properties"]) if document else {}

    def change_properties(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        """Change the namespace's properties.

        Args:
            change: makes the new ones of the present ones; it may be called several times.
        """

        def changed(before: Content | None) -> Content:
            return {"properties": change(dict(before["properties"]) if before else {})}

        self._change(_PROPERTIES, changed)

    def view(self, name: str) -> Content | None:
        """A view's definition.

        Args:
            name: the view.
        """
        document = self._get(_key(_VIEWS, name))
        return document["view"] if document else None

    def views(self) -> list[str]:
        """The names of all views."""
        table = self._open(to_read=True)
        if table is None:
            return []
        return [document.content["name"] for _, document in table.iterate(prefix=_VIEWS)]

    def change_view(self, name: str, change: Callable[[Content | None], Content]) -> None:
        """Make or change a view.

        Args:
            name: the view.
            change: makes the new definition of the present one, or of None; what it raises ends it.
        """

        def changed(before: Content | None) -> Content:
            return {"name": name, "view": change(before["view"] if before else None)}

        self._change(_key(_VIEWS, name), changed)

    def drop_view(self, name: str) -> bool:
        """Remove a view.

        Returns:
            False when there was none.
        """
        table = self._open()
        return table is not None and table.change(_key(_VIEWS, name), lambda _: None) is not None

    def table(self, name: str) -> Content | None:
        """What SQL knows of a key-value table.

        Args:
            name: the table.
        """
        document = self._get(_key(_TABLES, name))
        return document["table"] if document else None

    def change_table(self, name: str, change: Callable[[Content | None], Content]) -> None:
        """Keep what SQL knows of a key-value table.

        Args:
            name: the table.
            change: makes it of what is known so far; it may be called several times.
        """

        def changed(before: Content | None) -> Content:
            return {"name": name, "table": change(before["table"] if before else None)}

        self._change(_key(_TABLES, name), changed)

    def drop_table(self, name: str) -> None:
        """Forget what SQL knows of a key-value table."""
        table = self._open(to_read=True)
        if table is not None:
            table.change(_key(_TABLES, name), lambda _: None)

    def delete(self) -> None:
        """Remove the store with all that is in it."""
        self._client.controller.delete_key_value_table(self._scope, STORE)

    def _get(self, key: bytes) -> Content | None:
        table = self._open(to_read=True)
        return None if table is None else table.content(key)

    def _change(self, key: bytes, change: Callable[[Content | None], Content]) -> None:
        table = self._open()
        if table is None:
            change(None)
            self._client.create_key_value_table(self._scope, STORE, partitions=1, key_bytes=KEY_BYTES)
            table = self._existing()
        table.change(key, change)

    def _open(self, *, to_read: bool = False) -> JsonTable | None:
        try:
            return self._existing()
        except KeyValueTableNotFoundError:
            return None
        except AuthenticationError:
            # Pravega tells where a key-value table is only to who may change it; whether there is one it tells nobody.
            if to_read:
                return None
            raise

    def _existing(self) -> JsonTable:
        table = KeyValueTable.reopened(self._client.pool, self._scope, STORE, key=_PROPERTIES)
        return JsonTable(table, f'what scope "{self._scope}" keeps for catalogs')


def is_internal(name: str) -> bool:
    """Whether a key-value table is the catalog's own, or one of Pravega's: SQL doesn't show those.

    Args:
        name: the table's, without its scope.
    """
    return is_ledger_name(name) or name == STORE or name.startswith("_")


def _key(kind: bytes, name: str) -> bytes:
    return kind + hashlib.blake2b(name.encode(), digest_size=KEY_BYTES - 1).digest()
