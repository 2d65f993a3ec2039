"""Tiering in a process of its own, which gives way to all others: writers come first where cores are few.

What tiering takes of memory is the machine's again when that process has ended.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.lake.tiering import TierReport, tier
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.frames.pandas_later import load_pandas_later
from pyspark_pravega.lake import LakeConfiguration, load_iceberg
from pyspark_pravega.settings import Settings

NICE = 19
"""From its first import on the process takes little but what others leave of the cores. Beside a writer who never rests
that is enough for 150,000 rows a second, and costs that writer 18 %; niceness 10 cost it 26 (benchmarks/RESULTS.md)."""
_PROGRAM = f"import os; os.nice({NICE}); from {__name__} import main; main()"
_log = logging.getLogger(__name__)


def tier_apart(settings: Settings, configuration: LakeConfiguration, stream: Stream) -> TierReport:
    """Put a table's rows into the lake, as `tier` does. When this process dies, the other one removes its files.

    Args:
        settings: the cluster, and the schema registry.
        configuration: where the lake is.
        stream: the table's stream.

    Raises:
        PravegaError: as `tier`; or the process was killed.
    """
    # Nothing of it stands in the command, which others see.
    request = pickle.dumps((settings, configuration, stream, os.getpid()))
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        answer, _ = process.communicate(request)
    if not answer:
        how = f"by signal {-process.returncode}" if process.returncode < 0 else f"with code {process.returncode}"
        raise PravegaError(
            f'the process that puts rows of stream "{stream}" into the lake has ended {how}: run it again, and '
            "CALL clean_lake for files that it has left"
        )
    result = pickle.loads(answer)
    if isinstance(result, TierReport):
        return result
    raise result


def main() -> None:
    """Tier the table that standard input tells of, and answer on standard output; give up when who asks is gone."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="pravega tiering: %(levelname)s %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    load_pandas_later()
    settings, configuration, stream, asking = pickle.load(sys.stdin.buffer)
    result: TierReport | PravegaError
    try:
        load_iceberg()
        result = tier(settings, configuration, stream, lambda: os.getppid() != asking)
    except PravegaError as error:
        result = error
    except Exception as error:
        _log.exception("stream %s", stream)
        result = PravegaError(f"unexpected {type(error).__name__}: {error}; the catalog process's log tells more")
    with suppress(BrokenPipeError):
        answers.write(pickle.dumps(result))
        answers.flush()
    # Threads that wait for a server aren't waited for.
    os._exit(0)
