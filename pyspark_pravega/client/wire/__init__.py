"""The segment store's wire protocol, as a core without sockets: bytes to commands and back.

`command` is what all have in common, `commands` lists them; `appends`, `segments`, `tables`, `greetings` and `failures`
define them; `fields` packs values, `protocol` cuts the stream of bytes into commands. It uses errors only.
"""

from pyspark_pravega.client.wire.commands import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.client.wire.fields import Buffer
from pyspark_pravega.client.wire.protocol import FrameDecoder, UnknownCommand, encode_frame

__all__ = ["ANY_VERSION", "NOT_EXISTS", "Buffer", "FrameDecoder", "UnknownCommand", "encode_frame"]
