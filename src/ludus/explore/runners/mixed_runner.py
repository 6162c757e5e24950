"""Plays games between policies of both kinds: those in which a language model sits in words, all others on boards.

Invariants: an episode is played whole by one of the two runners, and which one follows from the policies in it. Each is
a network, a language model, an endpoint or a fixed player, and which of them follows from its name: the store says what
a policy is. All language models of a population stand on the same base model and talk in the same way
(`Setup.lm_config`), so that one engine speaks for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ludus.config import RunConfig, parse_config
from ludus.errors import ConfigError
from ludus.explore.messages import Setup
from ludus.explore.players.endpoints import Counts
from ludus.explore.players.network_seats import Networks
from ludus.explore.runners.host_runner import HostRunner, build_host_runner
from ludus.explore.runners.language_runner import LanguageRunner
from ludus.explore.runners.text_building import build_language_runner
from ludus.lm.language_shape import LanguageModelShape
from ludus.policies import AnyShape, PolicyShape, PolicyStore
from ludus.policies.shapes import shape_from_json
from ludus.records import EpisodeBatch, Experiences, Task
from ludus.runtime import Pulse

BOARDS_S = 0.05
"""How long games on boards are played on before those in words get their turn, at most."""


class MixedRunner:
    """A runner of boards and one of words behind the same face."""

    def __init__(self, boards: HostRunner, words: LanguageRunner, speaks: Callable[[str], bool]) -> None:
        """`speaks` tells by its name whether somebody plays in words alone."""
        self._boards = boards
        self._words = words
        self._speaks = speaks
        self.slots = boards.slots
        self.speech = words.speech

    @property
    def trouble(self) -> str:
        """Why the engine cannot be reached now; empty while it can."""
        return self._words.trouble

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to play."""
        return self._boards.is_idle and self._words.is_idle

    @property
    def finished_episodes(self) -> int:
        """Episodes that the next harvest would return."""
        return self._boards.finished_episodes + self._words.finished_episodes

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks; each starts as soon as a slot is free."""
        for task in tasks:
            in_words = any(self._speaks(seat.policy.name) for seat in task.seats)
            (self._words if in_words else self._boards).submit([task])

    def take_servers(self, urls: Sequence[str]) -> None:
        """The inference servers that there are from now on."""
        self._words.take_servers(urls)

    def cancel(self, tasks: Sequence[int]) -> None:
        """Give up these tasks, begun or not; what is not handed over yet goes, too."""
        self._boards.cancel(tasks)
        self._words.cancel(tasks)

    def progress(self) -> list[tuple[int, int]]:
        """Tasks that are being played, and steps so far."""
        return [*self._boards.progress(), *self._words.progress()]

    def step(self) -> None:
        """Play on for a moment.

        Raises:
            EngineLost: the engine has been out of reach for too long.
        """
        ends = time.monotonic() + BOARDS_S
        while not self._boards.is_idle and time.monotonic() < ends:
            self._boards.step()
        if not self._words.is_idle:
            self._words.step()

    def harvest(self) -> EpisodeBatch:
        """Hand over what has finished since the last call."""
        boards, words = self._boards.harvest(), self._words.harvest()
        return EpisodeBatch(
            episodes=(*boards.episodes, *words.episodes),
            experiences=Experiences.concatenate([boards.experiences, words.experiences]),
        )

    @property
    def sampled_tokens(self) -> int:
        """That the engine has written so far."""
        return self._words.sampled_tokens

    def take_counts(self) -> Counts:
        """What endpoints have done since the last call, by name of the metric."""
        return self._words.take_counts()

    def close(self) -> None:
        """Give up what is in flight and the engine."""
        self._words.close()


class Kinds:
    """What the policies of a run are, by name."""

    def __init__(self, setup: Setup, learner: str, store: PolicyStore) -> None:
        """`learner` is the run's own policy, which may have no version yet."""
        self._store = store
        self._learner = learner
        self._learners_shape = shape_from_json(setup.shape)
        self._known: dict[str, AnyShape] = {}

    def shapes(self) -> list[AnyShape]:
        """Of every policy that there is now."""
        found = [self.shape(name) for name in dict.fromkeys((self._learner, *self._store.names()))]
        return [shape for shape in found if shape is not None]

    def is_language_model(self, name: str) -> bool:
        """Whether a policy of this name is a language model; a fixed player and an endpoint are not."""
        return isinstance(self.shape(name), LanguageModelShape)

    def shape(self, name: str) -> AnyShape | None:
        """Of a policy; None of a fixed player or an endpoint."""
        if name not in self._known:
            versions = self._store.versions(name)
            if not versions:
                return self._learners_shape if name == self._learner else None
            self._known[name] = self._store.shape(versions[-1])
        return self._known[name]


def build_population_runner(
    setup: Setup, config: RunConfig, pulse: Pulse, store: PolicyStore
) -> MixedRunner | LanguageRunner | None:
    """The runner of a population's games as far as there are language models in it; None while there are none.

    Raises:
        ConfigError: there are language models on several base models.
    """
    kinds = Kinds(setup, config.policy.name, store)
    models = [shape for shape in kinds.shapes() if isinstance(shape, LanguageModelShape)]
    if not models:
        return None
    setup = msgspec.structs.replace(setup, shape=_common(models).to_json())
    if len(models) < len(kinds.shapes()):
        return _build_mixed_runner(setup, config, pulse, store, kinds)
    return build_language_runner(setup, config, pulse, store, speaks=kinds.is_language_model)


def _build_mixed_runner(setup: Setup, config: RunConfig, pulse: Pulse, store: PolicyStore, kinds: Kinds) -> MixedRunner:
    from ludus.explore.actors import NetworkActors

    lm_config = parse_config(setup.lm_config, "lm_config.json", stored=True)
    actors = NetworkActors(store)
    for shape in {repr(shape): shape for shape in kinds.shapes() if isinstance(shape, PolicyShape)}.values():
        actors.prepare(shape)
    words = build_language_runner(
        setup,
        lm_config,
        pulse,
        store,
        deadline_s=config.explore.deadline_s,
        speaks=kinds.is_language_model,
        networks=Networks(actors, lambda name: isinstance(kinds.shape(name), PolicyShape), noise=config.explore.noise),
        max_length=config.explore.max_length,
    )
    boards = build_host_runner(setup, config, pulse, store, actors=actors)
    endpoints = lm_config.explore.endpoints
    return MixedRunner(boards, words, lambda name: name in endpoints or kinds.is_language_model(name))


def _common(shapes: Sequence[LanguageModelShape]) -> LanguageModelShape:
    """What all language models of a run stand on."""
    if any((shape.model.path, shape.model.lora) != (shapes[0].model.path, shapes[0].model.lora) for shape in shapes):
        paths = ", ".join(sorted({shape.model.path for shape in shapes}))
        raise ConfigError(f"population: its language models stand on several models ({paths}); write one for all")
    return shapes[0]
