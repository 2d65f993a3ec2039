"""Actors that take turns as a seed says, on a clock that nobody waits for, with faults at their calls.

Each actor is a greenlet: its code is the product's, and each call that it makes of the modelled cluster is a step. At a
step another actor may go on, the server may do some of its own work, the caller may die, and an answer may be lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import greenlet

from pyspark_pravega.errors import ControllerUnavailableError, UnavailableError

Answer = TypeVar("Answer")
MAX_STEPS = 60_000
_BEGIN_S = 1_700_000_000
_PATIENCE_S = (7.0, 40.0, 180.0)
"""How long silent servers are waited for: a frozen segment store, one call of a controller, and all tries."""


class CrashError(BaseException):
    """The actor is dead: whatever its code still tries fails, too."""


class EndlessError(Exception):
    """A history doesn't come to its end."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How much goes wrong in a history; each is a probability at a step."""

    switch: float = 0.4
    """That another actor goes on."""
    lost: float = 0.0
    """That an answer is lost: the call was done, wasn't, or is done later."""
    silence: float = 0.0
    """That a lost answer is waited for until the client's patience is over, while all others go on."""
    failure: float = 0.0
    """That the controller says of a commit or an abort that it failed, whether that is so or not."""
    crash: float = 0.0
    """That an actor has a step at which it dies."""
    expiry: float = 0.0
    """That a lease ends."""
    pause: float = 0.0
    """That all clocks go on by seconds, as when a process is halted."""
    stall: float = 0.0
    """That an actor is halted for a while, others not."""
    lag: float = 0.0
    """That a conditional change can be read a moment after it is in the way of others."""
    skew_ms: int = 0
    """How far clocks may differ."""
    scale: float = 0.0
    """That the stream is scaled."""
    repeats: float = 0.0
    """That a partition of a write is tried more than once."""

    @property
    def is_reliable(self) -> bool:
        """Whether nobody dies and each call is answered, with the truth."""
        return not (self.crash or self.lost or self.failure)

    @classmethod
    def of(cls, rng: random.Random) -> Profile:
        """A profile of its own for each history: some are calm."""

        def some(*rates: float) -> float:
            return rng.choice(rates)

        return cls(
            switch=some(0.1, 0.3, 0.6),
            lost=some(0.0, 0.0, 0.01, 0.04),
            failure=some(0.0, 0.0, 0.1, 0.3),
            crash=some(0.0, 0.3, 0.6),
            expiry=some(0.0, 0.0, 0.002, 0.01),
            pause=some(0.0, 0.0, 0.005, 0.02),
            stall=some(0.0, 0.0, 0.01, 0.03),
            lag=some(0.0, 0.0, 0.3),
            skew_ms=rng.choice((0, 0, 50, 5000)),
            scale=some(0.0, 0.0, 0.004, 0.02),
            repeats=some(0.0, 0.0, 0.3, 0.6),
        )


class Actor:
    """Somebody who does something to the cluster."""

    def __init__(self, world: World, name: str, run: Callable[[], None], *, crash_at: int = 0) -> None:
        """Prepare; `crash_at` is the step of its own at which it dies, 0 for none."""
        self.name, self.crash_at = name, crash_at
        self.wakes, self.steps, self.dead, self.over = 0.0, 0, False, False
        self.skew_ns = 0
        self._run, self._world = run, world
        self.greenlet = greenlet.greenlet(self._go, world.main)

    def _go(self) -> None:
        try:
            self._run()
        except CrashError:
            pass
        finally:
            self.over = True
            self._world.actors.remove(self)


class World:
    """The scheduler and the clock. The cluster's own work is what `server` gives."""

    def __init__(self, seed: int, profile: Profile | None = None) -> None:
        """Begin at a seed: the same one makes the same history."""
        self.rng = random.Random(seed)
        self.answers = random.Random(f"calls{seed}")
        """How calls fail that do: of its own, so that most seeds' histories stay what they were, those of tests too."""
        self.main = greenlet.getcurrent()
        self.profile = profile or replace(Profile.of(self.rng), silence=self.answers.choice((0.0, 0.0, 0.0, 0.5)))
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.now, self.steps, self.calm = 0.0, 0, False
        self.later: list[Callable[[], object]] = []
        """Calls that arrive when their caller has given them up."""
        self.server: Callable[[], bool] = bool
        """Does some of the cluster's own work; False when there is none."""
        self.accident: Callable[[], object] = bool
        """Ends a lease."""
        self.growth: Callable[[], object] = bool
        """Scales the stream."""
        self.trace: list[str] | None = None
        self.deaths = 0
        """How many have died, those of a profile with crashes and catalog processes."""

    def add(self, name: str, run: Callable[[], None]) -> Actor:
        """Let somebody take part."""
        rng, profile = self.rng, self.profile
        crash_at = rng.randrange(1, 90) if not self.calm and rng.random() < profile.crash else 0
        actor = Actor(self, name, run, crash_at=crash_at)
        actor.skew_ns = rng.randint(-profile.skew_ms, profile.skew_ms) * 1_000_000
        self.actors.append(actor)
        return actor

    def run(self) -> None:
        """Until all actors are through."""
        while self.actors:
            actor = self._pick()
            self.current = actor
            actor.greenlet.switch()
        self.current = None

    def call(
        self,
        what: str,
        action: Callable[[], Answer],
        *,
        once: bool = False,
        lost: type[UnavailableError] = ControllerUnavailableError,
    ) -> Answer:
        """A call of the cluster by the actor whose turn it is.

        Args:
            what: which, for traces.
            action: does it, at once.
            once: whether the client must not repeat it when its answer is lost.
            lost: what the caller is to see then.
        """
        actor, random = self.current, self.rng.random
        assert actor is not None
        while True:
            self.step(what)
            if actor.steps == actor.crash_at:
                fate = self.rng.randrange(3)
                self._do(action, fate)
                self.die(what)
            if self.calm or random() >= self.profile.lost:
                return action()
            self._do(action, self.rng.randrange(3))
            if once or random() < 0.3:
                self.note(f"{what}: no answer")
                if self.profile.silence and self.answers.random() < self.profile.silence:
                    self.sleep(self.answers.choice(_PATIENCE_S))
                raise lost(f"no answer to {what}")

    def step(self, what: str) -> None:
        """Another actor may go on here."""
        actor = self.current
        assert actor is not None
        if actor.dead:
            raise CrashError
        if self.trace is not None:
            self.note(what)
        self._count()
        actor.steps += 1
        profile, random = self.profile, self.rng.random
        if not self.calm and profile.stall and random() < profile.stall:
            self.note("is halted")
            self.sleep(self.rng.choice((0.1, 3.0, 12.0)))
        elif random() < profile.switch:
            self._yield(actor)

    def sleep(self, seconds: float) -> None:
        """The actor has nothing to do for a while."""
        actor = self.current
        assert actor is not None
        if actor.dead:
            raise CrashError
        self._count()
        actor.wakes = self.now + seconds
        self._yield(actor)

    def die(self, what: str) -> NoReturn:
        """The actor ends here."""
        assert self.current is not None
        self.current.dead = True
        self.deaths += 1
        self.note(f"{what}: dies")
        raise CrashError

    def note(self, text: str) -> None:
        """Keep what happens, where somebody wants to look at a history."""
        if self.trace is not None:
            name = "-" if self.current is None else self.current.name
            self.trace.append(f"{self.steps:5} {self.now:9.3f} {name:10} {text}")

    def time_ns(self) -> int:
        """The time of day, as the actor's clock shows it."""
        skew = 0 if self.current is None else self.current.skew_ns
        return int((_BEGIN_S + self.now) * 1_000_000_000) + skew

    def _do(self, action: Callable[[], object], fate: int) -> None:
        if fate == 1:
            _try(action)
        elif fate == 2:
            self.later.append(action)

    def _count(self) -> None:
        self.steps += 1
        self.now += 0.0005
        if self.steps > MAX_STEPS:
            raise EndlessError(f"not over after {MAX_STEPS} steps")

    def _yield(self, actor: Actor) -> None:
        chosen = self._pick()
        if chosen is not actor:
            self.current = chosen
            chosen.greenlet.switch()

    def _pick(self) -> Actor:
        """Who goes on; before that the cluster may do something."""
        rng, random, profile = self.rng, self.rng.random, self.profile
        if not self.calm:
            if profile.expiry and random() < profile.expiry:
                self.accident()
            if profile.scale and random() < profile.scale:
                self.growth()
            if profile.pause and random() < profile.pause:
                self.now += rng.choice((1.0, 11.0))
            if self.later and random() < 0.05:
                _try(self.later.pop(rng.randrange(len(self.later))))
        if random() < 0.3:
            self.server()
        while True:
            now = self.now
            awake = [actor for actor in self.actors if actor.wakes <= now]
            if awake:
                return awake[0] if len(awake) == 1 else awake[int(random() * len(awake))]
            if not self.server():
                if self.later:
                    _try(self.later.pop(rng.randrange(len(self.later))))
                    continue
                # Nothing can happen before somebody wakes up, and then mostly nothing does: so sleep is deep.
                self.now = min(actor.wakes for actor in self.actors) + 0.4
            else:
                self.now += 0.005


def _try(action: Callable[[], Any]) -> None:
    try:
        action()
    except Exception:
        # Nobody is there any more to be told.
        return
