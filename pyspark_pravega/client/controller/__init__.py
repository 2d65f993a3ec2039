"""Calls of Pravega's controller over gRPC.

Each module holds the calls of one kind, `controller` is all of them together. `rpc` makes a call, `calls` reads its
status, `messages` makes values of `controller.proto`'s messages. It uses the client's values and nothing above.
"""

from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.controller.scaling import even_ranges

__all__ = ["Controller", "even_ranges"]
