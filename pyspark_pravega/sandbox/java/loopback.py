"""Keeps Pravega's controller on loopback, for which the standalone server has no setting.

The controller's `GRPCServer` calls `NettyServerBuilder.forPort(port)`, which listens on every address. Here its class
is written anew with a static method of the same name and type, which calls `forAddress(address, port)`, and the call
leads to that one.
"""

from __future__ import annotations

import struct

from pyspark_pravega.sandbox.java.class_file import Constants, with_static_method

CLASS = "io/pravega/controller/server/rpc/grpc/GRPCServer.class"
_BUILDERS = ("io/grpc/netty/shaded/io/grpc/netty/NettyServerBuilder", "io/grpc/netty/NettyServerBuilder")
"""The second one is that of 0.11."""


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
    ((owner, call),) = [(owner, call) for owner in _BUILDERS for call in constants.methods(owner, "forPort")]
    builder, name_and_type = constants.pair(call)
    name, kind = constants.pair(name_and_type)
    address, internet = constants.add_class("java/net/InetSocketAddress"), constants.add_class("java/net/InetAddress")
    # Not getLoopbackAddress(), which is another one where Java is told to prefer IPv6.
    host = constants.add_string("127.0.0.1")
    get_by_name = constants.add_method(internet, "getByName", "(Ljava/lang/String;)Ljava/net/InetAddress;")
    new = constants.add_method(address, "<init>", "(Ljava/net/InetAddress;I)V")
    listen = constants.add_method(builder, "forAddress", f"(Ljava/net/SocketAddress;)L{owner};")
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
    after = code[constants.end :]
    (own,) = struct.unpack_from(">H", after, 2)
    constants.redirect(call, own)
    return with_static_method(code, constants, after, name, kind, instructions, stack=4)
