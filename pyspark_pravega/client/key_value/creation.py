"""How a key-value table is made, also where the controller of Pravega 0.13 doesn't come to the end of it.

The controller answers when the table can be used. An event of its own makes the table meanwhile, in these steps: the
name gets an id among the tables of its scope, a table segment of that id is made for what the controller knows of the
table, and the segment is filled. Whoever asks for the table between the first two steps can make the third one fail: a
look for a segment that isn't there yet is still under way when the segment is made, and the segment store answers the
first change of the new segment with that look's failure. The controller then gives the event up. Each later creation
brings another id, and is passed over because of it. A deletion finds no state, and so no table. Such a name is broken:
nothing of the table is there, but the name can't be made or deleted, and its scope never gets empty.

So the name is taken out of its scope, where its id still has no state after a creation that wasn't answered for
seconds. Then it can be made. (Read in 0.13.0: CreateTableTask, TableMetadataTasks and MetadataStore; seen on servers.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import TypeVar
from uuid import UUID

from pyspark_pravega.client.connections import Cluster, Connection
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.policies import KeyValueTableConfiguration
from pyspark_pravega.client.wire import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.deadlines import Limit, deadline
from pyspark_pravega.errors import (
    AuthenticationError,
    ControllerUnavailableError,
    NotFoundError,
    OperationFailedError,
    UnavailableError,
    WrongHostError,
)

_ASKED_AGAIN_S = 8.0
"""After so long a creation is asked for again."""
_LOOK_S = 2.0
"""How long to look what is there of a table whose creation isn't answered."""
_BARE_S = 5.0
"""How long a name has to be there without a table until it counts as broken. A table is made in 0.05 s; servers that
lacked CPU took more than 2 s, and two made the table then."""
_METADATA = Stream("_system", "_tables")
"""Where the controller keeps what it knows, in table segments whose names begin so."""
_SEGMENTS_ASKED = 64
"""So many segments are asked for, to come to know every segment store."""

Reply = TypeVar("Reply", bound=wire.Command)


def create_table(cluster: Cluster, scope: str, name: str, configuration: KeyValueTableConfiguration) -> bool | None:
    """Make a key-value table, unless it is there. A call that isn't answered is made again, which does no harm.

    Of several calls at once the controller may answer all but one, however often that one is made again: the table is
    there then.

    Args:
        cluster: where to make it.
        scope: its scope.
        name: its name.
        configuration: its partitions and the lengths of its keys.

    Returns:
        True when it was made by this call, False when it was there. None where nobody tells: an answer was lost, and
        then it was there.

    Raises:
        InvalidNameError: it can't be called so.
        ScopeNotFoundError: there is no such scope.
        ControllerUnavailableError: no controller answers in time.
    """
    limit, denied, is_unclear = Limit(cluster.settings.timeout), False, False
    if not cluster.controller.has_answered:
        # Somebody has to be there: the rest is patient with who is.
        cluster.controller.scope_exists(scope)
    while True:
        try:
            with deadline(_ASKED_AGAIN_S):
                is_new = cluster.controller.create_key_value_table(scope, name, **asdict(configuration))
            return None if is_unclear and not is_new else is_new
        except UnavailableError as error:
            is_unclear = True
            if _is_usable(cluster, scope, name):
                return None
            try:
                with suppress(UnavailableError), deadline(_BARE_S + _LOOK_S):
                    forget_broken_names(cluster, scope, [name])
            except AuthenticationError:
                denied = True
            if not limit.wait():
                if denied:
                    raise _perhaps_broken(scope, name, error) from error
                raise


def forget_broken_names(cluster: Cluster, scope: str, names: Iterable[str]) -> list[str]:
    """Take key-value tables' names out of a scope where nothing else of them is there, so that they can be made again.

    A creation that is only slow is not harmed: it fails, or makes what the next one makes.

    Args:
        cluster: where they are.
        scope: their scope.
        names: names of tables, whether there are such or not.

    Returns:
        Those that were taken out; none where the server keeps such things elsewhere, as another version may.

    Raises:
        AuthenticationError: the user may not change what the controller keeps; one who may do everything may.
        UnavailableError: the segment store can't be reached.
    """
    metadata = _Metadata(cluster)
    seen = {name: version for name in names if (version := metadata.version_of_bare(scope, name)) is not None}
    if not seen:
        return []
    # They may be under way: somebody else may even have begun anew with one a moment ago.
    _pause()
    return [name for name, version in seen.items() if metadata.forget(scope, name, version)]


class _Metadata:
    """Table segments of the controller's own."""

    def __init__(self, cluster: Cluster) -> None:
        self._pool = cluster.pool

    def version_of_bare(self, scope: str, name: str) -> int | None:
        """The version of a table's name in its scope, if nothing else of the table is there."""
        try:
            table_id, version = self.get(self._names(scope), name)
        except NotFoundError:
            return None
        try:
            self.get(f"{_METADATA}/{scope}/{name}/metadata.#.{UUID(bytes=table_id)}", "state")
        except NotFoundError:
            return version
        return None

    def forget(self, scope: str, name: str, version: int) -> bool:
        """Take a name out of its scope if it still has this version, and no table."""
        return self.version_of_bare(scope, name) == version and self.remove(self._names(scope), name, version)

    def _names(self, scope: str) -> str:
        scope_id, _ = self.get(f"{_METADATA}/scopes", scope)
        return f"{_METADATA}/{scope}/kvTablesInScope.#.{UUID(bytes=scope_id)}"

    def get(self, segment: str, key: str) -> tuple[bytes, int]:
        """Value and version of a key.

        Raises:
            NotFoundError: there is no such segment, or no such key.
        """

        def read(connection: Connection) -> wire.TableRead:
            request = wire.ReadTable(
                request_id=connection.next_id(),
                segment=segment,
                token=self._token(),
                keys=((key.encode(), ANY_VERSION, None),),
            )
            return connection.call(request, wire.TableRead)

        ((_, version, value),) = self._at_its_store(read).entries
        if version == NOT_EXISTS:
            raise NotFoundError(f'table segment "{segment}" has no key "{key}"')
        return value or b"", version

    def remove(self, segment: str, key: str, version: int) -> bool:
        """Remove a key that still has this version; False when it has another one, or is gone."""

        def remove(connection: Connection) -> wire.Command:
            request = wire.RemoveTableKeys(
                request_id=connection.next_id(),
                segment=segment,
                token=self._token(),
                keys=((key.encode(), version, None),),
            )
            connection.send(request)
            reply = connection.receive()
            if isinstance(reply, (wire.TableKeyBadVersion, wire.TableKeyDoesNotExist)):
                return reply
            return connection.expect(reply, wire.TableKeysRemoved)

        return isinstance(self._at_its_store(remove), wire.TableKeysRemoved)

    def _at_its_store(self, ask: Callable[[Connection], Reply]) -> Reply:
        """The controller tells nobody which segment store serves its segments; each says so when it isn't the one."""
        for segment_id in range(_SEGMENTS_ASKED):
            with (
                suppress(WrongHostError),
                self._pool.connection(_METADATA, segment_id, check=True) as connection,
            ):
                return ask(connection)
        raise NotFoundError(f"no segment store of the cluster serves what the controller keeps in {_METADATA}")

    def _token(self) -> str:
        return self._pool.tokens.get(_METADATA, write=True)


def _pause() -> None:
    time.sleep(_BARE_S)


def _is_usable(cluster: Cluster, scope: str, name: str) -> bool:
    try:
        with deadline(_LOOK_S):
            cluster.controller.key_value_table_segments(scope, name)
    except (NotFoundError, OperationFailedError, UnavailableError):
        return False
    return True


def _perhaps_broken(scope: str, name: str, error: UnavailableError) -> ControllerUnavailableError:
    return ControllerUnavailableError(
        f'key-value table "{scope}/{name}" could not be made, the controller did not come to the end of it ({error}). '
        "Perhaps it broke off an earlier creation, which only a user who may do everything (prn::*) can make up for: "
        "let one run this statement, or this program, once"
    )
