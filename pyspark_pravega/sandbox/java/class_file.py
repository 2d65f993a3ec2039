"""Java's class files, and what can be added to them (The Java Virtual Machine Specification, chapter 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_UTF8, _CLASS, _STRING, _METHOD, _NAME_AND_TYPE, _HANDLE, _DYNAMIC = 1, 7, 8, 10, 12, 15, 17
_LENGTHS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of a constant after its tag, for each tag but UTF-8's (4.4)."""
_TWO_SLOTS = (5, 6)
_INVOKE_STATIC = 6
"""A kind of method handle (5.4.3.5)."""
_PRIVATE_STATIC = 0x000A
_BOOTSTRAP_METHODS = "BootstrapMethods"


@dataclass
class Constants:
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
            if self.text(self.pair(self.pair(index)[0])[0]) == owner
            and self.text(self.pair(self.pair(index)[1])[0]) == name
        ]

    def strings(self, value: str) -> list[int]:
        """The strings of a value."""
        strings = [index for index, entry in self.entries.items() if entry[0] == _STRING]
        return [index for index in strings if self.text(self.pair(index)[0]) == value]

    def pair(self, index: int) -> tuple[int, int]:
        """The indexes in an entry; the second is 0 where there's only one."""
        first, second = struct.unpack(">HH", self.entries[index][1:5].ljust(4, b"\0"))
        return first, second

    def text(self, index: int) -> str:
        """What a UTF-8 entry says."""
        return self.entries[index][3:].decode()

    def redirect(self, index: int, owner: int) -> None:
        """Let a reference to a method lead to another class's method of the same name and type."""
        self.entries[index] = struct.pack(">BHH", _METHOD, owner, self.pair(index)[1])

    def add_utf8(self, text: str) -> int:
        """A text, for other entries."""
        return self._add(struct.pack(">BH", _UTF8, len(text)) + text.encode())

    def add_class(self, name: str) -> int:
        """A class."""
        return self._add(struct.pack(">BH", _CLASS, self.add_utf8(name)))

    def add_string(self, text: str) -> int:
        """A string."""
        return self._add(struct.pack(">BH", _STRING, self.add_utf8(text)))

    def add_method(self, owner: int, name: str, kind: str) -> int:
        """A reference to a class's method."""
        return self._add(struct.pack(">BHH", _METHOD, owner, self._add_name(name, kind)))

    def add_handle(self, owner: str, name: str, kind: str) -> int:
        """A handle of a static method."""
        method = self.add_method(self.add_class(owner), name, kind)
        return self._add(struct.pack(">BBH", _HANDLE, _INVOKE_STATIC, method))

    def add_computed(self, bootstrap: int, kind: str) -> int:
        """A constant that a bootstrap method of the class computes when it is first used (4.4.10).

        Args:
            bootstrap: the method's number.
            kind: the constant's type.
        """
        return self._add(struct.pack(">BHH", _DYNAMIC, bootstrap, self._add_name("value", kind)))

    def replace(self, index: int, other: int) -> None:
        """Let an entry say what another one says."""
        self.entries[index] = self.entries[other]

    def written(self) -> bytes:
        """The pool, with its count before it."""
        return struct.pack(">H", self.count) + b"".join(self.entries[index] for index in sorted(self.entries))

    def _add_name(self, name: str, kind: str) -> int:
        return self._add(struct.pack(">BHH", _NAME_AND_TYPE, self.add_utf8(name), self.add_utf8(kind)))

    def _add(self, entry: bytes) -> int:
        self.entries[self.count] = entry
        self.count += 1
        return self.count - 1


def with_static_method(
    code: bytes, constants: Constants, after: bytes, name: int, kind: int, instructions: bytes, *, stack: int
) -> bytes:
    """A class file with one more private static method, without branches, of one argument.

    Args:
        code: the class file.
        constants: its constant pool, with what the method needs.
        after: what comes after the constant pool.
        name: the method's name, an index.
        kind: its type, an index.
        instructions: what it does.
        stack: how many values it stacks up at most.
    """
    variables = 1
    # No exceptions are caught, and there are no attributes: without a branch there's no need for a stack map.
    body = struct.pack(">HHI", stack, variables, len(instructions)) + instructions + struct.pack(">HH", 0, 0)
    method = struct.pack(">HHHH", _PRIVATE_STATIC, name, kind, 1)
    method += struct.pack(">HI", constants.add_utf8("Code"), len(body)) + body
    count_at, end = methods_at(after)
    (count,) = struct.unpack_from(">H", after, count_at)
    head = struct.pack(">H", count + 1)
    return b"".join(
        (code[:8], constants.written(), after[:count_at], head, after[count_at + 2 : end], method, after[end:])
    )


def methods_at(after: bytes) -> tuple[int, int]:
    """Where the methods' count is, and where the last one ends, in what comes after the constant pool."""
    (interfaces,) = struct.unpack_from(">H", after, 6)
    count_at = _members_end(after, 8 + 2 * interfaces)
    return count_at, _members_end(after, count_at)


def bootstrap_methods_at(constants: Constants, after: bytes) -> tuple[int, int]:
    """Where the class's list of bootstrap methods begins, with its length, and where it ends, after the constant pool.

    Raises:
        LookupError: there's none.
    """
    _, at = methods_at(after)
    (attributes,) = struct.unpack_from(">H", after, at)
    at += 2
    for _ in range(attributes):
        name, length = struct.unpack_from(">HI", after, at)
        if constants.text(name) == _BOOTSTRAP_METHODS:
            return at + 2, at + 6 + length
        at += 6 + length
    raise LookupError(_BOOTSTRAP_METHODS)


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
