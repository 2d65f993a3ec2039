"""The schema registry as Python calls (REST, version 0.6.0)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pyspark_pravega.errors import (
    AuthenticationError,
    ConfigurationError,
    GroupNotFoundError,
    IncompatibleSchemaError,
    PravegaError,
    SchemaError,
    SchemaNotFoundError,
)
from pyspark_pravega.registry.deletions import delete
from pyspark_pravega.registry.model import (
    CREATION,
    EncodingInfo,
    GroupProperties,
    History,
    SchemaInfo,
    VersionInfo,
    format_json,
    history_from_json,
    page_from_json,
    schemas_from_json,
)
from pyspark_pravega.registry.transport import Refusals, T, Transport, part
from pyspark_pravega.security import Credentials, Tls
from pyspark_pravega.settings import DEFAULT_TIMEOUT_S

_PAGE = 100


class SchemaRegistry:
    """A schema registry. Threads may share one; it is a context manager, and can be pickled.

    In every call `namespace` is the Pravega scope and `group` the stream, as in other Pravega connectors.
    Nothing is cached: a group that is deleted and created again begins its ids at 0 anew.

    Every call may raise RegistryUnavailableError (no answer in time), AuthenticationError (credentials refused),
    CertificateError (its certificate isn't trusted), DeadlineExceededError (the deadline that the caller set with
    `pyspark_pravega.deadlines.deadline` is over) and OperationFailedError (a status without a meaning of its own).

    Args:
        uri: `http://host:port` or `https://host:port`.
        timeout: for how long a registry that is gone is waited for, in seconds.
        credentials: who asks, if the registry wants to know.
        tls: which servers to believe, for `https:`; those whose certificates the system trusts when None.
        presumed: whether the address is right for sure, as others have reached it: it is always waited for then.
    """

    def __init__(
        self,
        uri: str,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        presumed: bool = False,
    ) -> None:
        if not timeout > 0:
            raise ConfigurationError(f"timeout must be a positive number of seconds, not {timeout}")
        self.uri, self.timeout, self._secured = uri, timeout, (credentials, tls)
        self._transport = Transport(uri, timeout, credentials=credentials, tls=tls, presumed=presumed)
        self.known_groups: dict[tuple[str, str], tuple[GroupProperties, History]] = {}
        """What groups were, with their history, when somebody looked last, by namespace and name."""

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.uri!r}, timeout={self.timeout:g})"

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(SchemaRegistry, timeout=self.timeout, presumed=self._transport.has_answered)
        return partial(again, credentials=self._secured[0], tls=self._secured[1]), (self.uri,)

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Further calls fail."""
        self._transport.close()

    def ping(self) -> None:
        """Ask whether the registry is there.

        Raises:
            RegistryUnavailableError: it isn't.
        """
        self._transport.call("reach it", "GET", "/ping")

    def create_group(
        self,
        namespace: str,
        group: str,
        *,
        serialization_format: str = "Avro",
        compatibility: str = "Backward",
        allow_multiple_types: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> bool:
        """Create a group, unless it exists; an existing one stays as it is.

        Args:
            namespace: the scope.
            group: the stream.
            serialization_format: `Avro`, `Protobuf`, `Json`, `Any`, or a custom format's full type name.
            compatibility: the policy's name; other than `AllowAny` and `DenyAll` only for Avro.
            allow_multiple_types: whether it takes schemas of more than one type.
            properties: free text.

        Returns:
            Whether this call made it, also when the answer that said so was lost. The group holds a mark of the call
            that made it (in its properties, hidden by `group` and `groups`).

        Raises:
            ConfigurationError: format and policy don't go together.
        """
        doing = f'create group "{namespace}/{group}"'
        part(group)
        creation = uuid.uuid4().hex
        body = {
            "groupName": group,
            "groupProperties": {
                "serializationFormat": format_json(serialization_format),
                "compatibility": {"policy": compatibility},
                "allowMultipleTypes": allow_multiple_types,
                "properties": {**(properties or {}), CREATION: creation},
            },
        }
        refusals: Refusals = {
            400: (
                ConfigurationError,
                f"can't {doing} with format {serialization_format} and compatibility {compatibility}: "
                "{text}; "
                'formats other than Avro take only "AllowAny" and "DenyAll"',
            )
        }
        response = self._transport.call(
            doing,
            "POST",
            "/v1/groups",
            params={"namespace": namespace},
            json=body,
            expect=(201, 409),
            refusals=refusals,
        )
        # Of calls at the same time the registry may answer 201 to several (seen: 2 of 32); the group has one's mark.
        try:
            return self.group(namespace, group).creation == creation
        except GroupNotFoundError:
            return False
        except AuthenticationError:
            # The user may create groups and not read them.
            return response.status_code == 201

    def group(self, namespace: str, group: str) -> GroupProperties:
        """What a group was created with.

        Args:
            namespace: the scope.
            group: the stream.

        Returns:
            Its properties.

        Raises:
            GroupNotFoundError: there's no such group.
        """
        doing = f'read group "{namespace}/{group}"'
        return self._group_call(GroupProperties.from_json, doing, "GET", namespace, group)

    def groups(self, namespace: str) -> Iterator[tuple[str, GroupProperties]]:
        """The groups of a namespace, page by page.

        Args:
            namespace: the scope; one that the registry never heard of has no groups.

        Yields:
            Name and properties, in no order.
        """
        names: set[str] = set()
        params = {"namespace": namespace, "limit": str(_PAGE)}
        while True:
            page, token = self._transport.answer(
                page_from_json, f'list the groups of "{namespace}"', "GET", "/v1/groups", params=params
            )
            # The last page isn't marked: an empty one follows it, with the same token.
            fresh = page.keys() - names
            if not fresh:
                return
            names |= fresh
            for name in fresh:
                yield name, page[name]
            if not token:
                return
            params["continuationToken"] = token

    def delete_group(self, namespace: str, group: str) -> None:
        """Delete a group with its schemas; nothing happens when there's none, nor to one that is made meanwhile.

        Args:
            namespace: the scope.
            group: the stream.
        """
        doing = f'delete group "{namespace}/{group}"'
        delete(self._transport, doing, namespace, group, "", lambda: self._creation(namespace, group))

    def update_compatibility(self, namespace: str, group: str, compatibility: str) -> None:
        """Change a group's compatibility policy, which counts for the schemas that are added from then on.

        Args:
            namespace: the scope.
            group: the stream.
            compatibility: the policy's name. The registry doesn't look whether it can check the group's format by it.

        Raises:
            GroupNotFoundError: there's no such group.
        """
        self._transport.call(
            f'change the compatibility of group "{namespace}/{group}" to {compatibility}',
            "PUT",
            f"/v1/groups/{part(group)}/compatibility",
            params={"namespace": namespace},
            json={"compatibility": {"policy": compatibility}},
            expect=(200,),
            refusals={404: _no_group(namespace, group)},
        )

    def delete_schema(self, namespace: str, group: str, schema_id: int) -> None:
        """Remove a schema from a group; nothing happens when it isn't there. Its encodings can be read further on.

        Args:
            namespace: the scope.
            group: the stream.
            schema_id: the id in its version.
        """
        doing = f'delete schema {schema_id} of group "{namespace}/{group}"'
        path = f"/schemas/schema/{schema_id}"
        delete(self._transport, doing, namespace, group, path, lambda: self._creation(namespace, group))

    def add_schema(self, namespace: str, group: str, schema: SchemaInfo) -> VersionInfo:
        """Register a schema; one that is registered already keeps its version.

        Args:
            namespace: the scope.
            group: the stream.
            schema: the schema.

        Returns:
            Its version.

        Raises:
            GroupNotFoundError: there's no such group.
            IncompatibleSchemaError: the group's policy, format or single type forbids it.
            SchemaError: it isn't a schema of its format.
        """
        doing = f'add schema "{schema.type}" to group "{namespace}/{group}"'
        return self._group_call(
            VersionInfo.from_json,
            doing,
            "POST",
            namespace,
            group,
            "/schemas",
            json=schema.to_json(),
            expect=(201,),
            refusals={
                400: (SchemaError, f"can't {doing}: the registry can't read the schema ({{text}})"),
                409: (
                    IncompatibleSchemaError,
                    f"can't {doing}: it isn't compatible with the schemas there under the group's policy, "
                    "or is of another type; give added columns a default (make them nullable), "
                    "change no column's type, and keep the record's name",
                ),
                417: (
                    IncompatibleSchemaError,
                    f"can't {doing}: the group holds schemas in another format than {schema.serialization_format}",
                ),
            },
        )

    def schemas(self, namespace: str, group: str, type: str | None = None) -> list[tuple[SchemaInfo, VersionInfo]]:
        """All versions of all schemas of a group.

        Args:
            namespace: the scope.
            group: the stream.
            type: only schemas of this type.

        Returns:
            Schemas and versions, oldest first; none for an unknown type.

        Raises:
            GroupNotFoundError: there's no such group.
        """
        doing = f'read the schemas of group "{namespace}/{group}"'
        query = {} if type is None else {"type": type}
        return self._group_call(schemas_from_json, doing, "GET", namespace, group, "/schemas/versions", query=query)

    def latest_schema(
        self, namespace: str, group: str, type: str | None = None
    ) -> tuple[SchemaInfo, VersionInfo] | None:
        """The schema that was added last.

        Args:
            namespace: the scope.
            group: the stream.
            type: only schemas of this type.

        Returns:
            Schema and version, or None when the group holds none (of that type).

        Raises:
            GroupNotFoundError: there's no such group.
        """
        # Not GET /schemas: it answers 500 for an unknown type.
        schemas = self.schemas(namespace, group, type)
        return schemas[-1] if schemas else None

    def history(self, namespace: str, group: str) -> History:
        """All schemas of a group with the times when they were added.

        Args:
            namespace: the scope.
            group: the stream.

        Returns:
            Schemas, versions and times (ms since 1970), oldest first.

        Raises:
            GroupNotFoundError: there's no such group.
        """
        doing = f'read the history of group "{namespace}/{group}"'
        return self._group_call(history_from_json, doing, "GET", namespace, group, "/history")

    def encoding_id(self, namespace: str, group: str, version: VersionInfo, codec: str = "") -> int:
        """The id in the header of events of a schema version and a codec; made when there's none yet.

        Args:
            namespace: the scope.
            group: the stream.
            version: the schema's version.
            codec: a codec the group knows, `""` for none.

        Returns:
            The id: 0, 1, 2, ... within the group.

        Raises:
            GroupNotFoundError: there's no such group.
            SchemaNotFoundError: there's no such version.
            ConfigurationError: the codec isn't registered with the group.
        """
        doing = f'get an encoding id of group "{namespace}/{group}"'
        return self._group_call(
            lambda answer: int(answer["encodingId"]),
            doing,
            "PUT",
            namespace,
            group,
            "/encodings",
            json={"versionInfo": version.to_json(), "codecType": codec},
            refusals={
                404: (
                    SchemaNotFoundError,
                    f"can't {doing}: the group, or version {version.version} (id {version.id}) of schema "
                    f'"{version.type}" in it, doesn\'t exist; was the group deleted and created again?',
                ),
                412: (
                    ConfigurationError,
                    f"can't {doing}: the codec \"{codec}\" isn't registered with the group; add it first",
                ),
            },
        )

    def encoding(self, namespace: str, group: str, encoding_id: int) -> EncodingInfo:
        """What an encoding id stands for.

        Args:
            namespace: the scope.
            group: the stream.
            encoding_id: the id from an event's header.

        Returns:
            Schema, version and codec.

        Raises:
            GroupNotFoundError: there's no such group.
            SchemaNotFoundError: the group never gave out that id.
        """
        doing = f'read encoding {encoding_id} of group "{namespace}/{group}"'
        return self._group_call(
            EncodingInfo.from_json,
            doing,
            "GET",
            namespace,
            group,
            f"/encodings/{encoding_id}",
            refusals={
                404: (
                    SchemaNotFoundError,
                    f'group "{namespace}/{group}" has no encoding {encoding_id}: the event was written by '
                    "another serializer, or for a group that was deleted since",
                )
            },
        )

    def codecs(self, namespace: str, group: str) -> list[str]:
        """The codecs registered with a group; `""`, none, is always allowed and never listed.

        Args:
            namespace: the scope.
            group: the stream.

        Returns:
            Their names.

        Raises:
            GroupNotFoundError: there's no such group.
        """
        doing = f'list the codecs of group "{namespace}/{group}"'
        return self._group_call(
            lambda answer: [codec["name"] for codec in answer.get("codecTypes") or []],
            doing,
            "GET",
            namespace,
            group,
            "/codecTypes",
        )

    def add_codec(self, namespace: str, group: str, codec: str) -> None:
        """Register a codec with a group; nothing happens when it is there.

        Args:
            namespace: the scope.
            group: the stream.
            codec: `application/x-gzip`, `application/x-snappy-framed`, or a name that readers and writers
                agree on.

        Raises:
            GroupNotFoundError: there's no such group.
        """
        doing = f'add codec "{codec}" to group "{namespace}/{group}"'
        self._transport.call(
            doing,
            "POST",
            f"/v1/groups/{part(group)}/codecTypes",
            params={"namespace": namespace},
            json={"name": codec},
            expect=(201,),
            refusals={404: _no_group(namespace, group)},
        )

    def _creation(self, namespace: str, group: str) -> str:
        return self.group(namespace, group).creation

    def _group_call(
        self,
        parse: Callable[[Any], T],
        doing: str,
        method: str,
        namespace: str,
        group: str,
        path: str = "",
        *,
        query: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        expect: tuple[int, ...] = (200,),
        refusals: Refusals | None = None,
    ) -> T:
        try:
            return self._transport.answer(
                parse,
                doing,
                method,
                f"/v1/groups/{part(group)}{path}",
                params={"namespace": namespace, **(query or {})},
                json=json,
                expect=expect,
                refusals={404: _no_group(namespace, group), **(refusals or {})},
            )
        except SchemaNotFoundError:
            # The registry's 404 doesn't say what is missing: the group, or something in it.
            self.group(namespace, group)
            raise


def _no_group(namespace: str, group: str) -> tuple[type[PravegaError], str]:
    return (
        GroupNotFoundError,
        f'the schema registry has no group "{namespace}/{group}"; check the namespace (the scope) and the '
        "group (the stream), or create the table with CREATE TABLE",
    )
