"""Two constants of the standalone server that no setting changes: how long tokens are valid, and what signs them.

Pravega's controller can be told both; the standalone, which has a controller in it, calls it with values of its own:
600 s, and the word "secret", with which anybody could sign tokens. Here its class is written anew: a system property
says the time, and another one which file holds the key. So the class is the same for all sandboxes, and has no secret.

The values are computed constants (The Java Virtual Machine Specification, 4.4.10), which Java computes when they are
first used: the key is `Files.readString(Paths.get(System.getProperty(...)))`.
"""

from __future__ import annotations

import struct

from pyspark_pravega.sandbox.java.class_file import Constants, bootstrap_methods_at

CLASS = "io/pravega/local/InProcPravegaCluster.class"
KEY_FILE = "sandbox.tokens.key-file"
"""The system property that names the file of the signing key; it is read as it is, in UTF-8."""
TTL = "sandbox.tokens.seconds"
"""The system property of the lifetime."""
DEFAULT_TTL_S = 600
"""The standalone's own."""
MAX_TTL_S = 0x7FFF_FFFF
"""The longest lifetime that Java takes."""
_LIFETIME = b"\x11" + struct.pack(">h", DEFAULT_TTL_S)
"""The instruction `sipush 600`. `ldc_w`, which takes a constant, is as long."""
_KEY = "secret"
_TEXT, _PATH, _INTEGER = "Ljava/lang/String;", "Ljava/nio/file/Path;", "Ljava/lang/Integer;"
_INVOKE = (
    f"(Ljava/lang/invoke/MethodHandles$Lookup;{_TEXT}Ljava/lang/Class;Ljava/lang/invoke/MethodHandle;"
    "[Ljava/lang/Object;)Ljava/lang/Object;"
)


def with_settings(code: bytes) -> bytes:
    """Change the class of the standalone server.

    Args:
        code: the class file.

    Returns:
        The class file that gets both values when the server starts.

    Raises:
        ValueError: it isn't the one expected.
        LookupError: the same.
    """
    constants = Constants(code)
    after = code[constants.end :]
    begin, end = bootstrap_methods_at(constants, after)
    (count,) = struct.unpack_from(">H", after, begin + 4)
    invoke = constants.add_handle("java/lang/invoke/ConstantBootstraps", "invoke", _INVOKE)
    added: list[bytes] = []

    def computed(kind: str, method: int, argument: int) -> int:
        added.append(struct.pack(">HHHH", invoke, 2, method, argument))
        return constants.add_computed(count + len(added) - 1, kind)

    get_property = constants.add_handle("java/lang/System", "getProperty", f"({_TEXT}){_TEXT}")
    get_path = constants.add_handle("java/nio/file/Paths", "get", f"({_TEXT}[{_TEXT}){_PATH}")
    read = constants.add_handle("java/nio/file/Files", "readString", f"({_PATH}){_TEXT}")
    get_integer = constants.add_handle("java/lang/Integer", "getInteger", f"({_TEXT}){_INTEGER}")
    file = computed(_PATH, get_path, computed(_TEXT, get_property, constants.add_string(KEY_FILE)))
    (key,) = constants.strings(_KEY)
    constants.replace(key, computed(_TEXT, read, file))
    ttl = computed("I", get_integer, constants.add_string(TTL))

    before, listed, rest = after[:begin], after[begin + 6 : end], after[end:]
    if before.count(_LIFETIME) != 1:
        raise ValueError("there isn't just one lifetime")
    before = before.replace(_LIFETIME, b"\x13" + struct.pack(">H", ttl))
    listed += b"".join(added)
    head = struct.pack(">IH", 2 + len(listed), count + len(added))
    return b"".join((code[:8], constants.written(), before, head, listed, rest))
