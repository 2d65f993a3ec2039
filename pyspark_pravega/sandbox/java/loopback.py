"""Keeps Pravega's controller on loopback, for which the standalone server has no setting.

The controller's `GRPCServer` calls `NettyServerBuilder.forPort(port)`, which listens on every address. Here its class
is written anew with a static method of the same name and type, which calls `forAddress(address, port)`, and the call
leads to that one.
"""

from __future__ import annotations

import struct

from pyspark_pravega.sandbox.java.class_file import Constants, methods_at

CLASS = "io/pravega/controller/server/rpc/grpc/GRPCServer.class"
_BUILDER = "io/grpc/netty/shaded/io/grpc/netty/NettyServerBuilder"
_PRIVATE_STATIC = 0x000A


def on_loopback(code: bytes) -> bytes:
    """Change a class that calls `NettyServerBuilder.forPort` once.

    Args:
        code: the class file.

    Returns:
        The class file that listens on loopback.

    Raises:
        ValueError: there isn't just one such method that it calls.
    """
    constants = Constants(code)
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
    count_at, end = methods_at(after)
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
