"""Keeps Pravega's controller on loopback, for which the standalone server has no setting.

The controller's `GRPCServer` calls `NettyServerBuilder.forPort(port)`, which listens on every address. Here its class
is written anew with a static method of the same name and type, which calls `forAddress(address, port)`, and the call
leads to that one. It is found before the jar's. The jar is pinned by its sum, so this is one class of one version.
"""

from __future__ import annotations

import io
import struct
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from pyspark_pravega.errors import SandboxError

_CLASS = "io/pravega/controller/server/rpc/grpc/GRPCServer.class"
_BUILDER = "io/grpc/netty/shaded/io/grpc/netty/NettyServerBuilder"
_UTF8, _CLASS_INFO, _STRING, _METHOD, _NAME_AND_TYPE = 1, 7, 8, 10, 12
_LENGTHS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of a constant after its tag, for each tag but UTF-8's (The Java Virtual Machine Specification, 4.4)."""
_TWO_SLOTS = (5, 6)
_PRIVATE_STATIC = 0x000A


def class_jar(jars: Path, folder: Path) -> Path:
    """A jar of the class with its own way to listen; written where it isn't yet.

    It is the same file at each start, beside the jars that it belongs to: Java has an archive of classes (its option
    `-XX:SharedArchiveFile`) for files that stay the same, and for none where there are folders of classes.

    Args:
        jars: the folder of Pravega's jars.
        folder: where to write it when the cache, in which the jars are, takes no more files.

    Returns:
        The jar to put before the others on the class path.

    Raises:
        SandboxError: the class isn't the one expected.
    """
    (jar,) = jars.glob("pravega-controller-*.jar")
    with zipfile.ZipFile(jar) as classes:
        code = classes.read(_CLASS)
    try:
        changed = on_loopback(code)
    except (ValueError, LookupError, struct.error) as error:
        raise SandboxError(
            f"{_CLASS} in {jar} isn't the one of Pravega 0.13.0: it can't be kept on loopback"
        ) from error
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as written:
        # With a date of its own, 1980, so that the bytes are always the same.
        written.writestr(zipfile.ZipInfo(_CLASS), changed)
    try:
        return _kept(jars.parent.with_name("changed") / f"{jars.name}.jar", content.getvalue())
    except OSError:
        return _kept(folder / "loopback.jar", content.getvalue())


def _kept(file: Path, content: bytes) -> Path:
    """A file with a content, whole at each moment; it isn't touched when it is there."""
    if not file.is_file() or file.read_bytes() != content:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as written:
            written.write(content)
        Path(written.name).chmod(0o644)
        Path(written.name).replace(file)
    return file


def on_loopback(code: bytes) -> bytes:
    """Change a class that calls `NettyServerBuilder.forPort` once.

    Args:
        code: the class file.

    Returns:
        The class file that listens on loopback.

    Raises:
        ValueError: there isn't just one such method that it calls.
    """
    constants = _Constants(code)
    (call,) = constants.methods(_BUILDER, "forPort")
    builder, name_and_type = constants.pair(call)
    name, kind = constants.pair(name_and_type)
    address, internet = constants.add_class("java/net/InetSocketAddress"), constants.add_class("java/net/InetAddress")
    # Not getLoopbackAddress(), which is another one where Java is told to prefer IPv6.
    host = constants.add_string("127.0.0.1")
    get_by_name = constants.add_method(internet, "getByName", "(Ljava/lang/String;)Ljava/net/InetAddress;")
    new = constants.add_method(address, "<init>", "(Ljava/net/InetAddress;I)V")
    listen = constants.add_method(builder, "forAddress", f"(Ljava/net/SocketAddress;)L{_BUILDER};")
    instructions = b"".join(
        (
            b"\xbb" + struct.pack(">H", address),  # new InetSocketAddress
            b"\x59",  # dup
            b"\x13" + struct.pack(">H", host),  # ldc_w "127.0.0.1"
            b"\xb8" + struct.pack(">H", get_by_name),  # invokestatic InetAddress.getByName
            b"\x1a",  # iload_0, the port
            b"\xb7" + struct.pack(">H", new),  # invokespecial InetSocketAddress.<init>
            b"\xb8" + struct.pack(">H", listen),  # invokestatic NettyServerBuilder.forAddress
            b"\xb0",  # areturn
        )
    )
    stack, variables = 4, 1
    # No exceptions are caught, and there are no attributes: without a branch there's no need for a stack map.
    body = struct.pack(">HHI", stack, variables, len(instructions)) + instructions + struct.pack(">HH", 0, 0)
    method = struct.pack(">HHHH", _PRIVATE_STATIC, name, kind, 1)
    method += struct.pack(">HI", constants.add_utf8("Code"), len(body)) + body
    after = code[constants.end :]
    (own,) = struct.unpack_from(">H", after, 2)
    constants.redirect(call, own)
    count_at, end = _methods(after)
    (count,) = struct.unpack_from(">H", after, count_at)
    return b"".join(
        (
            code[:8],
            constants.written(),
            after[:count_at],
            struct.pack(">H", count + 1),
            after[count_at + 2 : end],
            method,
            after[end:],
        )
    )


@dataclass
class _Constants:
    """A class file's constant pool, which can grow."""

    code: bytes
    end: int = 0
    """Where it ends in the class file."""
    entries: dict[int, bytes] = field(default_factory=dict)
    """Index to tag and content."""
    count: int = 0

    def __post_init__(self) -> None:
        (self.count,) = struct.unpack_from(">H", self.code, 8)
        self.end, index = 10, 1
        while index < self.count:
            tag = self.code[self.end]
            length = 2 + struct.unpack_from(">H", self.code, self.end + 1)[0] if tag == _UTF8 else _LENGTHS[tag]
            self.entries[index] = self.code[self.end : self.end + 1 + length]
            self.end += 1 + length
            index += 2 if tag in _TWO_SLOTS else 1

    def methods(self, owner: str, name: str) -> list[int]:
        """The references to a class's methods of a name."""
        references = [index for index, entry in self.entries.items() if entry[0] == _METHOD]
        return [
            index
            for index in references
            if self._text(self.pair(self.pair(index)[0])[0]) == owner
            and self._text(self.pair(self.pair(index)[1])[0]) == name
        ]

    def pair(self, index: int) -> tuple[int, int]:
        """The indexes in an entry; the second is 0 where there's only one."""
        first, second = struct.unpack(">HH", self.entries[index][1:5].ljust(4, b"\0"))
        return first, second

    def redirect(self, index: int, owner: int) -> None:
        """Let a reference to a method lead to another class's method of the same name and type."""
        self.entries[index] = struct.pack(">BHH", _METHOD, owner, self.pair(index)[1])

    def add_utf8(self, text: str) -> int:
        return self._add(struct.pack(">BH", _UTF8, len(text)) + text.encode())

    def add_class(self, name: str) -> int:
        return self._add(struct.pack(">BH", _CLASS_INFO, self.add_utf8(name)))

    def add_string(self, text: str) -> int:
        return self._add(struct.pack(">BH", _STRING, self.add_utf8(text)))

    def add_method(self, owner: int, name: str, kind: str) -> int:
        both = self._add(struct.pack(">BHH", _NAME_AND_TYPE, self.add_utf8(name), self.add_utf8(kind)))
        return self._add(struct.pack(">BHH", _METHOD, owner, both))

    def written(self) -> bytes:
        """The pool, with its count before it."""
        return struct.pack(">H", self.count) + b"".join(self.entries[index] for index in sorted(self.entries))

    def _add(self, entry: bytes) -> int:
        self.entries[self.count] = entry
        self.count += 1
        return self.count - 1

    def _text(self, index: int) -> str:
        return self.entries[index][3:].decode()


def _methods(after: bytes) -> tuple[int, int]:
    """Where the methods' count is, and where the last one ends, in what comes after the constant pool."""
    (interfaces,) = struct.unpack_from(">H", after, 6)
    count_at = _members_end(after, 8 + 2 * interfaces)
    return count_at, _members_end(after, count_at)


def _members_end(after: bytes, at: int) -> int:
    """The end of a list of fields or methods, which begins with its count."""
    (count,) = struct.unpack_from(">H", after, at)
    at += 2
    for _ in range(count):
        (attributes,) = struct.unpack_from(">H", after, at + 6)
        at += 8
        for _ in range(attributes):
            (length,) = struct.unpack_from(">I", after, at + 2)
            at += 6 + length
    return at
