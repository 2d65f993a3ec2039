"""The controller's calls about key-value tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.calls import ControllerCalls, no_scope, no_table
from pyspark_pravega.client.names import MAX_TABLE_NAME_LENGTH, Stream, StreamSegments, check_name
from pyspark_pravega.client.policies import KeyValueTableConfiguration
from pyspark_pravega.deadlines import Limit, deadline
from pyspark_pravega.errors import KeyValueTableNotFoundError, OperationFailedError, UnavailableError

_DELETE_POLL_S = 0.2
_LOOK_S, _DELETED_S = 4.0, 8.0
"""How long it is looked for a table; and after how much longer its deletion is asked for again."""


class ControllerTables(ControllerCalls):
    """A key-value table has table segments, which share the hashes of its primary keys."""

    def create_key_value_table(
        self,
        scope: str,
        table: str,
        *,
        partitions: int,
        key_bytes: int,
        secondary_key_bytes: int = 0,
        rollover_size_bytes: int = 0,
    ) -> bool:
        """Create a key-value table.

        Args:
            scope: its scope.
            table: its name.
            partitions: number of table segments.
            key_bytes: length of every primary key; of every key, where there are no secondary ones.
            secondary_key_bytes: length of every secondary key.
            rollover_size_bytes: how large a segment's files in long-term storage get; 0 for the server's default.

        Returns:
            True when it was made by this call, False when it was there.

        Raises:
            InvalidNameError: it can't be called so.
            ConfigurationError: there are no such tables.
            ScopeNotFoundError: there is no such scope.
        """
        check_name("scope", scope)
        check_name("key-value table", table, longest=MAX_TABLE_NAME_LENGTH)
        configuration = KeyValueTableConfiguration(
            partitions=partitions,
            key_bytes=key_bytes,
            secondary_key_bytes=secondary_key_bytes,
            rollover_size_bytes=rollover_size_bytes,
        )
        status = self._status("createKeyValueTable", messages.table_message(scope, table, configuration))
        if status == 3:
            raise no_scope(scope)
        if status not in (0, 2):
            raise OperationFailedError(
                f'the controller could not create key-value table "{scope}/{table}" (status {status})'
            )
        return status == 0

    def key_value_table_configuration(self, scope: str, table: str) -> KeyValueTableConfiguration:
        """A key-value table's configuration, as far as the server tells it: `rollover_size_bytes` is always 0.

        Raises:
            KeyValueTableNotFoundError: there is no such table.
        """
        info = pb.KeyValueTableInfo(scope=scope, kvt_name=table)
        method = "getKeyValueTableConfiguration"
        reply, _ = self._reply_unless_failed(
            method, info, pb.KeyValueTableConfigResponse, missing=no_table(scope, table)
        )
        if reply.status == 2:
            raise no_table(scope, table)
        if reply.status != 0:
            raise OperationFailedError(
                f'the controller could not tell the configuration of key-value table "{scope}/{table}"'
                f" (status {reply.status})"
            )
        return messages.table_configuration(reply.config)

    def key_value_table_segments(self, scope: str, table: str) -> StreamSegments:
        """A key-value table's segments; waits for a table that is being created.

        Raises:
            KeyValueTableNotFoundError: there is no such table.
        """
        info = pb.KeyValueTableInfo(scope=scope, kvt_name=table)
        reply = self._call("getCurrentSegmentsKeyValueTable", info, pb.SegmentRanges, missing=no_table(scope, table))
        return messages.segments(Stream(scope, f"{table}_kvtable"), reply.segment_ranges, reply.delegation_token)

    def delete_key_value_table(self, scope: str, table: str, still: Callable[[], bool] | None = None) -> bool:
        """Delete a key-value table with all its entries.

        Args:
            scope: its scope.
            table: its name.
            still: is asked right before each call, whether what is there is to be deleted at all.

        Returns:
            False when there was none, or a call whose answer was lost has deleted it. Another table that somebody has
            made meanwhile under that name stays.
        """
        if not self._rpc.has_answered:
            # Somebody has to be there: the rest is patient with who is.
            self.scope_exists(scope)
        info, limit = pb.KeyValueTableInfo(scope=scope, kvt_name=table), Limit(self._rpc.timeout)

        def identity() -> tuple[int, ...]:
            # One that is made again has segments of other numbers. One that is being made has none for a while.
            with deadline(_LOOK_S):
                return self.key_value_table_segments(scope, table).ids

        missing = no_table(scope, table)
        end = self._ending("deleteKeyValueTable", info, identity, missing=missing, still=still)

        def delete() -> int:
            with deadline(_LOOK_S + _DELETED_S):
                return end()

        while True:
            try:
                status, _ = self._unless_failed("deleteKeyValueTable", delete)
                break
            except KeyValueTableNotFoundError:
                # Somebody else is deleting it: parts of it are gone, and parts are there.
                if not limit.wait(_DELETE_POLL_S):
                    raise
            except UnavailableError:
                # It is gone for a while, or, where the table is being made at the same time, doesn't come to the end.
                if not limit.wait():
                    raise
        if status not in (0, 2):
            raise OperationFailedError(
                f'the controller could not delete key-value table "{scope}/{table}" (status {status})'
            )
        return status == 0

    def list_key_value_tables(self, scope: str) -> Iterator[str]:
        """A scope's key-value tables, page by page, in no particular order.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """

        def request(token: str) -> pb.KeyValueTablesInScopeRequest:
            return pb.KeyValueTablesInScopeRequest(
                scope=pb.ScopeInfo(scope=scope), continuation_token=pb.ContinuationToken(token=token)
            )

        method, reply = "listKeyValueTablesInScope", pb.KeyValueTablesInScopeResponse
        for page in self._pages(method, request, reply, "kvtables"):
            if page.status == 2:
                raise no_scope(scope)
            if page.status != 0:
                raise OperationFailedError(
                    f'the controller could not list the key-value tables of scope "{scope}" (status {page.status})'
                )
            yield from (info.kvt_name for info in page.kvtables)
