"""Plays many games at once on the host, one ply of every game per step.

Network decisions are batched across games by policy version; fixed players decide one by one. Any mix of policies may
share a game. A game that raises, breaks its protocol or exceeds its deadline costs its own episode and frees its slot.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from ludus.config import RunConfig
from ludus.errors import EnvError, PolicyError, RolloutError, TimeoutExceeded, boundary, rollout_error
from ludus.explore.messages import Setup
from ludus.explore.players.fixed import Player, make_player
from ludus.explore.runners.assembly import assemble
from ludus.explore.runners.network_decisions import NetworkDecisions, Row
from ludus.explore.runners.search_decisions import SearchDecisions
from ludus.explore.runners.slot import Slot
from ludus.games import make_game
from ludus.games.protocol import Game
from ludus.policies import PolicyShape, PolicyStore
from ludus.records import Episode, EpisodeBatch, PolicyRef, Task, episode_id
from ludus.runtime import NO_TASK, Pulse
from ludus.runtime.pulse import TASK

if TYPE_CHECKING:
    from ludus.explore.actors import NetworkActors


class HostRunner:
    """Keeps up to `slots` games in flight. Call `submit`, then `step` until `is_idle`, and `harvest` in between."""

    trouble = ""
    """Networks are in this process; there is nothing that could be out of reach."""

    sampled_tokens = 0
    """Networks write none."""

    speech = None
    """Nobody speaks."""

    def __init__(
        self,
        *,
        run: str,
        games: Callable[[str], Game],
        actors: NetworkActors,
        players: Callable[[str, Game], Player | None],
        slots: int,
        deadline_s: float = math.inf,
        max_length: int | None = None,
        noise: float = 0.0,
        pulse: Pulse | None = None,
        searches: SearchDecisions | None = None,
    ) -> None:
        """`players(name, game)` gives the fixed player of that name, or None when it is a network policy.

        `searches` decide for networks that search; without them, all play by their policy alone.
        """
        self._run = run
        self._games = games
        self._players = players
        self.slots = slots
        self._deadline_s = deadline_s
        self._max_length = max_length
        self._pulse = pulse or Pulse()
        self._searches = searches
        self._networks = NetworkDecisions(actors, noise=noise, pulse=self._pulse)
        self._waiting: deque[Task] = deque()
        self._slots: list[Slot] = []
        self._finished: list[tuple[Slot | None, Episode]] = []

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to play."""
        return not self._slots and not self._waiting

    @property
    def finished_episodes(self) -> int:
        """Episodes that the next harvest would return."""
        return len(self._finished)

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        self._waiting.extend(tasks)

    def take_servers(self, urls: Iterable[str]) -> None:
        """Networks decide in this process."""

    def cancel(self, tasks: Iterable[int]) -> None:
        """Give up these tasks, begun or not; what is not handed over yet goes, too."""
        doomed = set(tasks)
        self._waiting = deque(task for task in self._waiting if task.id not in doomed)
        self._slots = [slot for slot in self._slots if slot.task.id not in doomed]
        self._finished = [(slot, episode) for slot, episode in self._finished if episode.task.id not in doomed]

    def progress(self) -> list[tuple[int, int]]:
        """Tasks that are being played, and plies so far."""
        return [(slot.task.id, slot.ply) for slot in self._slots]

    def step(self) -> None:
        """Play one ply in every game in flight."""
        self._fill_slots()
        now = time.monotonic()
        ready = [slot for slot in self._slots.copy() if self._is_playable(slot, now)]
        for (ref, nodes), rows in self._ask_fixed_players(ready).items():
            if self._searches is None or not self._searches.decide(ref, nodes, rows):
                self._networks.decide(ref, rows)
        self._make_moves(ready)
        self._pulse.tick()

    def take_counts(self) -> dict[str, float]:
        """Nobody here asks an endpoint."""
        return {}

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        finished, self._finished = self._finished, []
        return assemble(finished)

    # -- one step, part by part ------------------------------------------------------------------------------------

    def _fill_slots(self) -> None:
        while self._waiting and len(self._slots) < self.slots:
            task = self._waiting.popleft()
            self._pulse.working_on(task.id)
            try:
                with boundary(EnvError, f"{task.game} could not start"):
                    game = self._games(task.game)
                    players = tuple(self._players(seat.policy.name, game) for seat in task.seats)
                    self._slots.append(Slot(task, game, players))
            except RolloutError as error:
                id = episode_id(self._run, task.id, task.attempt)
                self._finished.append((None, Episode.failed(id, task, f"{type(error).__name__}: {error}")))
        self._pulse.working_on(NO_TASK)

    def _is_playable(self, slot: Slot, now: float) -> bool:
        """Close games that are over, too long or too slow; the rest play on."""
        if not slot.acting:
            self._close(slot)
        elif now - slot.started > self._deadline_s:
            self._close(slot, error=f"{TimeoutExceeded.__name__}: the episode took longer than {self._deadline_s:g} s")
        elif self._max_length is not None and slot.ply >= self._max_length:
            self._close(slot, truncated=True)
        else:
            return True
        return False

    def _ask_fixed_players(self, ready: Iterable[Slot]) -> dict[tuple[PolicyRef, int], list[Row]]:
        """Let fixed players decide; returns the decisions of networks, by policy version and nodes of its search."""
        network_rows: dict[tuple[PolicyRef, int], list[Row]] = {}
        for slot in ready:
            for seat in slot.acting:
                who, player = slot.seats[seat].who, slot.seats[seat].player
                if player is None:
                    network_rows.setdefault((who.policy, who.nodes), []).append((slot, seat))
                    continue
                self._pulse.working_on(slot.task.id)
                try:
                    with boundary(PolicyError, who.policy.name):
                        slot.moves[seat] = int(player.choose(slot.position, seat, slot.generator(seat)))
                        self._pulse.tick()
                except RolloutError as error:
                    slot.error = error
        return network_rows

    def _make_moves(self, slots: Iterable[Slot]) -> None:
        words = self._pulse.words
        for slot in slots:
            if slot.error is None:
                words[TASK] = slot.task.id
                try:
                    slot.play()
                    if not slot.acting:
                        self._close(slot)
                except Exception as error:  # whatever a game may raise
                    slot.error = rollout_error(EnvError, slot.task.game, error)
            if slot.error is not None:
                self._close(slot, error=f"{type(slot.error).__name__}: {slot.error}")

    def _close(self, slot: Slot, *, truncated: bool = False, error: str = "") -> None:
        self._pulse.working_on(slot.task.id)
        id = episode_id(self._run, slot.task.id, slot.task.attempt)
        try:
            with boundary(EnvError, slot.task.game):
                episode = slot.finish(id, truncated=truncated, error=error)
        except RolloutError as broken:
            error = f"{type(broken).__name__}: {broken}"
            episode = slot.finish(id, error=error)
        self._slots.remove(slot)
        self._finished.append((None if error else slot, episode))


def build_host_runner(
    setup: Setup, config: RunConfig, pulse: Pulse, store: PolicyStore, *, actors: NetworkActors | None = None
) -> HostRunner:
    """The runner of network policies on boards; `actors` decide for them, if there are such already."""
    from ludus.explore.actors import NetworkActors

    network = config.policy.name
    game = lru_cache(maxsize=64)(make_game)
    fixed_player = lru_cache(maxsize=256)(lambda name, key: make_player(name, game(key)))

    def player(name: str, game: Game) -> Player | None:
        is_network = name == network or store.has_policy(name)
        return None if is_network else fixed_player(name, game.spec.key)

    if actors is None:
        actors = NetworkActors(store)
        actors.prepare(PolicyShape.from_json(setup.shape))
    return HostRunner(
        run=setup.run,
        games=game,
        actors=actors,
        players=player,
        noise=config.explore.noise,
        slots=setup.slots,
        deadline_s=config.explore.deadline_s,
        max_length=config.explore.max_length,
        pulse=pulse,
        searches=SearchDecisions(store, config, pulse),
    )
