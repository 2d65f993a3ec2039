"""Spark's daemon of Python workers, where coverage is measured: each worker keeps what it measured after each task.

Spark ends idle workers by a signal, which leaves them no time for it.
"""

import socket

from coverage import Coverage
from pyspark import daemon

_worker = daemon.worker


def _measured(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _worker(sock, authenticated)
    finally:
        measuring = Coverage.current()
        if measuring is not None:
            measuring.save()


if __name__ == "__main__":
    daemon.worker = _measured
    daemon.manager()
