"""The Pravega schema registry over REST."""

from pyspark_pravega.registry.client import SchemaRegistry
from pyspark_pravega.registry.model import EncodingInfo, GroupProperties, History, SchemaInfo, VersionInfo

__all__ = ["EncodingInfo", "GroupProperties", "History", "SchemaInfo", "SchemaRegistry", "VersionInfo"]
