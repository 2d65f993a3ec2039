"""Helpers of the sandbox's tests."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

MAIN = (
    "import argparse, sys\n"
    "from pyspark_pravega.errors import PravegaError\n"
    "from pyspark_pravega.sandbox.commands import register\n"
    "parser = argparse.ArgumentParser('pravega-spark')\n"
    "register(parser.add_subparsers(required=True))\n"
    "args = parser.parse_args()\n"
    "try:\n"
    "    sys.exit(args.run(args))\n"
    "except PravegaError as error:\n"
    "    print(error, file=sys.stderr)\n"
    "    sys.exit(1)\n"
)
"""The sandbox's commands alone, as a program."""

WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""What runs a command so that the modes of files hold for it, as they don't for root."""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", MAIN, "sandbox", *map(str, arguments)]


def eventually(condition: Callable[[], object], *, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it didn't happen in time"
        time.sleep(0.05)
