"""The Pravega schema registry over REST."""

from pyspark_pravega.registry.client import SchemaRegistry
from pyspark_pravega.registry.model import EncodingInfo, GroupProperties, SchemaInfo, VersionInfo

__all__ = ["EncodingInfo", "GroupProperties", "SchemaInfo", "SchemaRegistry", "VersionInfo"]
