"""Lets the standalone server of Pravega 0.11 be told by system properties what later ones can be told.

0.11 takes the segment store's settings from the system properties first, and then writes its own over some of them: it
listens on every address, and has a small cache. Later versions take the properties last. Here the class is written anew
with a static method that includes the properties once more and builds the configuration, and the call of
`ServiceBuilderConfig.Builder.build()` leads to that one.
"""

from __future__ import annotations

import struct

from pyspark_pravega.sandbox.java.class_file import Constants, with_static_method

_CONFIG = "io/pravega/segmentstore/server/store/ServiceBuilderConfig"
_BUILDER = f"{_CONFIG}$Builder"
_FILE = "singlenode.configurationFile"
"""Since 0.12 the class names it, and has the properties last."""


def with_properties_last(code: bytes) -> bytes:
    """Change the class of the standalone server, if it is that of 0.11.

    Args:
        code: the class file.

    Returns:
        The class file in which system properties have the last word.

    Raises:
        ValueError: it isn't the one expected.
    """
    constants = Constants(code)
    if constants.strings(_FILE):
        return code
    (build,) = constants.methods(_BUILDER, "build")
    kind = f"(L{_BUILDER};)L{_CONFIG};"
    get_properties = constants.add_method(
        constants.add_class("java/lang/System"), "getProperties", "()Ljava/util/Properties;"
    )
    include = constants.add_method(constants.pair(build)[0], "include", f"(Ljava/util/Properties;)L{_BUILDER};")
    instructions = b"".join(
        (
            b"\x2a",  # aload_0, the builder
            b"\xb8" + struct.pack(">H", get_properties),  # invokestatic System.getProperties
            b"\xb6" + struct.pack(">H", include),  # invokevirtual Builder.include
            b"\xb6" + struct.pack(">H", build),  # invokevirtual Builder.build
            b"\xb0",  # areturn
        )
    )
    after = code[constants.end :]
    (own,) = struct.unpack_from(">H", after, 2)
    name = "buildWithProperties"
    call, instead = (
        b"\xb6" + struct.pack(">H", build),
        b"\xb8" + struct.pack(">H", constants.add_method(own, name, kind)),
    )
    if after.count(call) != 1:
        raise ValueError("there isn't just one call")
    after = after.replace(call, instead)
    return with_static_method(
        code, constants, after, constants.add_utf8(name), constants.add_utf8(kind), instructions, stack=2
    )
