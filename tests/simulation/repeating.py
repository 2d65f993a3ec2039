"""A catalog process that dies while it commits: the JVM asks the next one for the same commit, whoever came between."""

from __future__ import annotations

from collections.abc import Callable

from world import Answer, World

from pyspark_pravega.errors import PravegaError

_BETWEEN = (0, 1, 3, 17, 40)
_PATIENCE_S = 0.05


def repeated(world: World, name: str, ask: Callable[[], Answer], others: Callable[[int], None]) -> Answer:
    """Ask a process for something, and another one again when the first dies before it has answered.

    Args:
        world: where it happens.
        name: who asks.
        ask: does it, as each of the processes would.
        others: lets others commit so many statements before the second one is asked.

    Returns:
        The answer that has arrived.

    Raises:
        PravegaError: that was the answer.
    """
    answers: list[Answer] = []
    errors: list[PravegaError] = []

    def run() -> None:
        try:
            answer = ask()
            # It may die when all is done, and nothing is said yet.
            world.step("answer")
            answers.append(answer)
        except PravegaError as error:
            errors.append(error)

    process = world.add(f"{name}'s process", run)
    process.crash_at = world.rng.choice((0, *range(1, 40)))
    while not process.over:
        world.sleep(_PATIENCE_S)
    if errors:
        raise errors[0]
    if answers:
        return answers[0]
    others(world.rng.choice(_BETWEEN))
    return ask()
