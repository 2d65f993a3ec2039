"""Sessions of a bank without Spark, in a catalog process of their own: `move` moves money, `read` looks for all of it.

Arguments: controller, schema registry, scope, `move` or `read`, how many sessions, the first one's seed. Each second it
prints what they have done as JSON, and it ends with its standard input.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from session_tools import Session

from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.errors import PravegaError, TransactionError, WriteConflictError
from pyspark_pravega.settings import Settings

TABLES = ("a", "b")
COLUMNS = ("id", "balance", "moves")
ACCOUNTS, BALANCE = 8, 1000
"""Of each table."""
TOTAL = len(TABLES) * ACCOUNTS * BALANCE
Tally = Counter[str]


class Moved:
    """What a reader has seen: never less than before."""

    def __init__(self) -> None:
        self._moves = 0

    def check(self, sums: dict[str, tuple[int, int]]) -> str | None:
        """What is wrong about the sums of balances and moves of each table; None for nothing."""
        balances = sum(balance for balance, _ in sums.values())
        moves = {moves for _, moves in sums.values()}
        if balances != TOTAL or len(moves) != 1 or min(moves) < self._moves:
            return f"{sums}, behind {self._moves} moves"
        self._moves = min(moves)
        return None


def move(session: Session, rng: random.Random, tally: Tally) -> None:
    """One transaction: money goes from an account of a table to one of the other."""
    amount, tables = rng.randrange(1, 100), rng.sample(TABLES, 2)
    id = session.begin()
    try:
        for table, change in zip(tables, (-amount, amount), strict=True):
            account = rng.randrange(ACCOUNTS)
            rows = session.rows(table, *COLUMNS, key=account)
            ((_, balance, moves),) = rows
            session.change(table, COLUMNS, rows, {account: (account, balance + change, moves + 1)})
        session.commit()
        tally["moves"] += 1
    except (WriteConflictError, TransactionError) as error:
        tally[type(error).__name__] += 1
        # As the JVM does when a statement or a commit fails.
        with suppress(PravegaError):
            session.id = id
            session.roll_back()
    finally:
        session.methods.answered()


def main(controller: str, registry: str, scope: str, what: str, sessions: str, seed: str) -> None:
    settings = Settings.resolve({"controller-uri": controller, "schema-registry-uri": registry}, environ={})
    methods, ended, tally = CatalogMethods(settings), threading.Event(), Tally()

    def often(do: Callable[[Session, random.Random], None], number: int) -> None:
        session, rng = Session(settings, scope, methods), random.Random(number)
        try:
            while not ended.is_set():
                do(session, rng)
        except BaseException as error:
            tally[f"wrong: {error!r}"] += 1
            raise

    def mover(session: Session, rng: random.Random) -> None:
        move(session, rng, tally)
        time.sleep(rng.uniform(0, 1.0))

    seen = [Moved() for _ in range(int(sessions))]

    def reader(number: int, session: Session, rng: random.Random) -> None:
        tables = rng.sample(TABLES, 2)
        rows = dict(zip(tables, session.rows_of(tables, *COLUMNS), strict=True))
        sums = {name: (sum(row[1] for row in of), sum(row[2] for row in of)) for name, of in rows.items()}
        if (wrong := seen[number].check(sums)) is not None:
            tally[f"wrong: {wrong}"] += 1
        tally["reads"] += 1

    def run(number: int) -> None:
        def read(session: Session, rng: random.Random) -> None:
            reader(number, session, rng)

        often(mover if what == "move" else read, int(seed) + number)

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    with ThreadPoolExecutor(int(sessions)) as threads:
        running = [threads.submit(run, number) for number in range(int(sessions))]
        threading.Thread(target=listen, daemon=True).start()
        while not ended.wait(1.0):
            print(json.dumps(tally), flush=True)
    print(json.dumps(tally), flush=True)
    for one in running:
        one.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
