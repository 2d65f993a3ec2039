"""Brings harm to a catalog process of Spark at a named step: `sitecustomize` loads it where `STRUCK_BY` is set.

`STRUCK_BY` is a file. When it is there, it says in JSON what is to happen: `step`, `after`, `times` as of a `Fault`,
and `victim`: `catalog`, `driver` (all processes of the program, which began a session of its own) or `connection`. It
is removed just before. SIGUSR1 cuts the connections at once.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from write_processes import TOGETHER_STEPS, cut_connections, place_of

from pyspark_pravega.connector.log import recovery

_LOCK = threading.Lock()
_SEEN: dict[str, int] = {}


def _strike(step: str, *, after: bool) -> None:
    order = Path(os.environ["STRUCK_BY"])
    if not order.exists():
        return
    with _LOCK:
        try:
            text = order.read_text()
            wanted = json.loads(text)
        except (OSError, ValueError):
            return
        if (wanted["step"], wanted["after"]) != (step, after):
            return
        _SEEN[text] = _SEEN.get(text, 0) + 1
        if _SEEN[text] <= wanted["times"]:
            return
        order.unlink()
        if wanted["victim"] == "driver":
            os.killpg(os.getsid(0), signal.SIGKILL)
        elif wanted["victim"] == "catalog":
            os.kill(os.getpid(), signal.SIGKILL)
        cut_connections()


def _striking(step: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def struck(*given: Any, **named: Any) -> Any:
        _strike(step, after=False)
        result = original(*given, **named)
        _strike(step, after=True)
        return result

    return struck


for _step in TOGETHER_STEPS:
    _owner, _name = place_of(_step)
    setattr(_owner, _name, _striking(_step, getattr(_owner, _name)))
# Who comes next waits no longer than this for the dead.
recovery.GRACE_S = 1.0
signal.signal(signal.SIGUSR1, lambda *_: cut_connections())
