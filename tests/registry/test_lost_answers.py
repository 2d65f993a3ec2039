"""Calls to the registry that are done, and whose answers are lost."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from client_tools import Proxy

from pyspark_pravega.registry import SchemaInfo, SchemaRegistry

pytestmark = pytest.mark.server


class AnswerLost(Proxy):
    """Cuts the connection instead of delivering the first answer that says "created", or that has another status."""

    has_lost = False
    status, then = b"201", staticmethod(lambda: None)

    def loses(self, data: bytes) -> bool:
        """The first piece that begins with such a status."""
        if self.has_lost or not data.startswith(b"HTTP/1.1 " + self.status):
            return False
        self.has_lost = True
        self.then()
        return True


def test_who_made_a_group_knows_it_though_the_answer_was_lost(registry: SchemaRegistry, scope: str) -> None:
    address = urlsplit(registry.uri)
    with (
        AnswerLost((str(address.hostname), int(address.port or 0))) as proxy,
        SchemaRegistry(f"http://127.0.0.1:{proxy.address[1]}") as beside,
    ):
        assert beside.create_group(scope, "g", properties={"owner": "é"}) is True
        assert proxy.has_lost
        assert beside.create_group(scope, "g") is False
    assert registry.group(scope, "g").properties == {"owner": "é"}
    assert dict(registry.groups(scope))["g"].properties == {"owner": "é"}


@pytest.mark.parametrize("whole", [True, False])
def test_a_group_that_others_make_meanwhile_keeps_what_it_has(
    registry: SchemaRegistry, scope: str, *, whole: bool
) -> None:
    """An answer is lost; when the call is made again another group has the name."""
    text = b'{"type": "record", "name": "Order", "namespace": "shop", "fields": []}'
    schema = SchemaInfo(type="shop.Order", serialization_format="Avro", schema_data=text)

    def make() -> None:
        registry.delete_group(scope, "g")
        registry.create_group(scope, "g")
        registry.add_schema(scope, "g", schema)

    make()
    address = urlsplit(registry.uri)
    with (
        AnswerLost((str(address.hostname), int(address.port or 0))) as proxy,
        SchemaRegistry(f"http://127.0.0.1:{proxy.address[1]}") as beside,
    ):
        proxy.status, proxy.then = b"204", make
        if whole:
            beside.delete_group(scope, "g")
        else:
            beside.delete_schema(scope, "g", 0)
        assert proxy.has_lost
    assert [version.id for _, version in registry.schemas(scope, "g")] == [0]
