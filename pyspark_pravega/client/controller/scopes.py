"""The controller's calls about scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller.key_value_tables import ControllerTables
from pyspark_pravega.client.controller.reader_groups import ControllerReaderGroups
from pyspark_pravega.client.names import Stream, check_name
from pyspark_pravega.errors import OperationFailedError, ScopeNotEmptyError, ScopeNotFoundError

_DELETE_AT_ONCE = 8

Item = TypeVar("Item")


class ControllerScopes(ControllerReaderGroups, ControllerTables):
    """A scope holds streams, key-value tables and reader groups."""

    def create_scope(self, scope: str) -> bool:
        """Create a scope.

        Args:
            scope: its name.

        Returns:
            True when it was made by this call, False when it was there.

        Raises:
            InvalidNameError: it can't be called so.
        """
        check_name("scope", scope)
        status, is_unclear = self._create("createScope", pb.ScopeInfo(scope=scope))
        if status not in (0, 2):
            raise OperationFailedError(f'the controller refused to create scope "{scope}" (status {status})')
        return status == 0 or is_unclear

    def list_scopes(self) -> Iterator[str]:
        """The scopes users have made, page by page (a page holds up to 1,000)."""

        def request(token: str) -> pb.ScopesRequest:
            return pb.ScopesRequest(continuation_token=pb.ContinuationToken(token=token))

        for page in self._pages("listScopes", request, pb.ScopesResponse, "scopes"):
            yield from (scope for scope in page.scopes if not scope.startswith("_"))

    def delete_scope(self, scope: str, *, recursive: bool = False) -> bool:
        """Delete a scope.

        Args:
            scope: its name.
            recursive: delete with it all that it holds, streams that aren't sealed as well. What is made in it at the
                same time makes this fail; trying again goes on where it has stopped.

        Returns:
            False when there was none. A scope has nothing that tells it from another one of its name: where an answer
            is lost, one that somebody has made meanwhile is deleted while it is empty.

        Raises:
            ScopeNotEmptyError: it holds streams, key-value tables or reader groups.
        """
        if recursive:
            self._empty_scope(scope)
        was_there = self.scope_exists(scope)

        def look() -> None:
            # Asked to delete a scope that holds streams, the server says no, but from then on can't make key-value
            # tables in it. Somebody may also have made it anew since a call whose answer was lost.
            with suppress(ScopeNotFoundError):
                if any(True for _ in self._streams(scope)) or any(True for _ in self.list_key_value_tables(scope)):
                    raise _not_empty(scope)

        def delete() -> int:
            if was_there:
                look()
            return self._rpc.status("deleteScope", pb.ScopeInfo(scope=scope), look=look)

        status, _ = self._unless_failed("deleteScope", delete)
        if status == 3:
            raise _not_empty(scope)
        if status not in (0, 2):
            raise OperationFailedError(f'the controller could not delete scope "{scope}" (status {status})')
        # A call whose answer was lost may have deleted it.
        return status == 0 or was_there

    def _empty_scope(self, scope: str) -> None:
        # The server has a call for this (deleteScopeRecursive). It isn't used: it takes half a second a stream, and
        # where one thing can't be deleted it never answers and leaves a scope that takes nothing and can't be deleted.
        try:
            for group in list(self.list_reader_groups(scope)):
                self.delete_reader_group(scope, group)
            # Pravega's own stream of marks beside each stream goes with it.
            names = list(self._streams(scope))
            _at_once(self._seal_and_delete, (Stream(scope, n) for n in names if not n.startswith("_MARK")))
            _at_once(self._seal_and_delete, (Stream(scope, n) for n in self._streams(scope)))
            _at_once(lambda table: self.delete_key_value_table(scope, table), list(self.list_key_value_tables(scope)))
        except ScopeNotFoundError:
            return

    def _seal_and_delete(self, stream: Stream) -> None:
        self.delete_stream(stream, seal=True)


def _at_once(call: Callable[[Item], object], items: Iterable[Item]) -> None:
    with ThreadPoolExecutor(_DELETE_AT_ONCE) as threads:
        list(threads.map(call, items))


def _not_empty(scope: str) -> ScopeNotEmptyError:
    return ScopeNotEmptyError(
        f'scope "{scope}" is not empty: delete its streams, key-value tables and reader groups first'
    )
