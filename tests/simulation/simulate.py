"""`make simulate`: many histories, in several processes; says which seeds can't be explained.

python tests/simulation/simulate.py --histories 100000 --processes 2
python tests/simulation/simulate.py --trace 17
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from keyed import KeyedHistory, history_of
from model_patches import modelled
from several_tables import TRANSACTIONS, TransactionHistory
from simulation import History, failures
from tiered import TIERED, TieredHistory
from wide_tables import LATE_DROPS, WIDE, LateDropHistory, WideHistory

_AT_ONCE = 250


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trace", type=int, help="a seed whose history is to be shown, step by step")
    given = parser.parse_args()
    if given.trace is not None:
        return _show(given.trace)
    begun, end = time.monotonic(), given.first_seed + given.histories
    blocks = [range(n, min(n + _AT_ONCE, end)) for n in range(given.first_seed, end, _AT_ONCE)]
    texts = []
    # What is there now stays: a history's own garbage is looked for once a block only.
    gc.collect()
    gc.freeze()
    with ProcessPoolExecutor(given.processes) as processes:
        for unexplained in processes.map(_failures, blocks):
            texts += unexplained
    print(
        f"{given.histories:,} histories in {time.monotonic() - begun:.0f} s; not explained: {len(texts)}",
        *texts,
        sep="\n",
    )
    return bool(texts)


def _history(seed: int) -> History | KeyedHistory | TransactionHistory:
    """The history of a seed, of whichever kind."""
    kinds = (
        *((LATE_DROPS, LateDropHistory), (TIERED, TieredHistory), (WIDE, WideHistory)),
        (TRANSACTIONS, TransactionHistory),
    )
    return next((kind(seed) for first, kind in kinds if seed >= first), None) or history_of(seed)


def _failures(seeds: range) -> list[str]:
    gc.disable()
    texts = failures(seeds, make=_history)
    gc.collect()
    return texts


def _show(seed: int) -> int:
    with modelled():
        history = _history(seed)
        history.world.trace = []
        try:
            history.run()
        except Exception as error:
            print(*history.world.trace, error, sep="\n")
            return 1
    print(*history.world.trace, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
