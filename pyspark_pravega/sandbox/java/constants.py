"""Two constants of the standalone server that no setting changes: how long tokens are valid, and what signs them.

Pravega's controller can be told both; the standalone, which has a controller in it, calls it with values of its own:
600 s, and the word "secret", with which anybody could sign tokens. Here its class is written anew with other ones, and
found before the jar's. The jar is pinned by its sum, so this is one class of one version.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox.security import write_private

_CLASS = "io/pravega/local/InProcPravegaCluster.class"
# The instruction `sipush 600`, and the constant pool's entry of the word (tag 1, length, UTF-8).
_LIFETIME = b"\x11" + struct.pack(">h", 600)
_KEY = b"\x01\x00\x06secret"
MAX_TOKEN_TTL_S = 0x7FFF
"""The longest lifetime that fits."""


def class_folder(jars: Path, folder: Path, *, token_ttl_s: int, signing_key: str) -> Path:
    """Write the class with other constants.

    Args:
        jars: the folder of Pravega's jars.
        folder: where to write it, as only this user may read it.
        token_ttl_s: how long a delegation token shall be valid, in seconds.
        signing_key: what tokens shall be signed with.

    Returns:
        The folder to put before the jars on the class path.

    Raises:
        SandboxError: the class isn't the one expected.
    """
    (jar,) = jars.glob("pravega-standalone-*.jar")
    with zipfile.ZipFile(jar) as classes:
        code = classes.read(_CLASS)
    if code.count(_LIFETIME) != 1 or code.count(_KEY) != 1:
        raise SandboxError(f"{_CLASS} in {jar} isn't the one of Pravega 0.13.0: tokens can't be set up")
    key = signing_key.encode()
    code = code.replace(_LIFETIME, b"\x11" + struct.pack(">h", token_ttl_s))
    code = code.replace(_KEY, b"\x01" + struct.pack(">H", len(key)) + key)
    target = folder / "classes"
    (target / _CLASS).parent.mkdir(parents=True)
    write_private(target / _CLASS, code)
    return target
