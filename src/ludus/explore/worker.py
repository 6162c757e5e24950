"""An explorer process: plays the tasks it is given and hands episodes back in batches.

Started by the supervisor; it ends when told to, when it cannot go on, or when its
parent is gone.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from ludus.config import RunConfig
from ludus.explore.messages import (
    Broken,
    Cancel,
    GaveUp,
    Play,
    Played,
    Ready,
    Servers,
    Setup,
    StepLimits,
    ToExplorer,
    Trouble,
)
from ludus.policies import PolicyStore
from ludus.runtime import Channel, NodeFiles, Pulse, Stop, run_worker
from ludus.storage.arrow import episodes_to_table, experiences_to_table, to_bytes
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.explore.runners.host_runner import HostRunner
    from ludus.explore.runners.language_runner import LanguageRunner
    from ludus.explore.runners.mixed_runner import MixedRunner

    Runner = HostRunner | LanguageRunner | MixedRunner

LONGEST_WAIT_S = 1.0
"""Finished episodes do not wait longer than this for others to be handed over with them."""
SEND_DEADLINE_S = 120.0


def serve(channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
    """Play until told to stop."""
    runner: Runner | None = None
    handed_over = time.monotonic()
    trouble, work, limits = "", Work(), StepLimits(limits=[])
    while True:
        idle = runner is None or runner.is_idle
        pulse.set_busy(not idle)
        for message, _ in channel.wait(None if idle else 0.0):
            if isinstance(message, Stop):
                return
            if isinstance(message, Setup):
                runner = build_runner(message, pulse, files)
                calm_garbage_collector()
                channel.send(Ready())
            elif isinstance(message, Play) and runner is not None:
                runner.submit(message.tasks)
            elif isinstance(message, Cancel) and runner is not None:
                runner.cancel(message.tasks)
            elif isinstance(message, StepLimits):
                limits = message
            elif isinstance(message, Servers) and runner is not None:
                runner.take_servers(message.urls)
        if runner is None:
            continue
        pulse.set_busy(True)
        if not runner.is_idle:
            with work.counting():
                runner.step()
        if limits.limits and (over := limits.broken_by(runner.progress())):
            runner.cancel(over)
            channel.send(GaveUp(tasks=over))
        if runner.trouble != trouble:
            trouble = runner.trouble
            channel.send(Trouble(reason=trouble))
        if is_due(runner, time.monotonic() - handed_over):
            hand_over(runner, channel, work)
            handed_over = time.monotonic()


@dataclass(slots=True)
class Work:
    """What has been done since episodes were last handed over."""

    busy_s: float = 0.0
    tokens_before: int = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """The time of a block is work."""
        began = time.monotonic()
        yield
        self.busy_s += time.monotonic() - began

    def take(self, sampled_tokens: int) -> tuple[float, int]:
        """Seconds and sampled tokens since the last call, by the total of tokens."""
        taken = (self.busy_s, sampled_tokens - self.tokens_before)
        self.busy_s, self.tokens_before = 0.0, sampled_tokens
        return taken


def is_due(runner: Runner, waited_s: float) -> bool:
    """Whether finished episodes should be handed over now: a good number of them, all there are, or some long since."""
    finished = runner.finished_episodes
    enough = finished >= runner.slots
    return bool(finished) and (enough or runner.is_idle or waited_s > LONGEST_WAIT_S)


def calm_garbage_collector() -> None:
    """Collect less often: games in flight are many small live objects, and what dies here dies by reference count."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def build_runner(setup: Setup, pulse: Pulse, files: NodeFiles) -> Runner:
    """Make the runner that a setup message describes."""
    from ludus.plugins import load_plugins

    setup = structs.replace(setup, plugins=[str(files.outside(path)) for path in setup.plugins])
    load_plugins(setup.plugins)
    config = RunConfig.model_validate_json(setup.config)
    store = PolicyStore(RunDirectory(files.run).policies, files)
    if setup.lm_config:
        from ludus.explore.runners.mixed_runner import build_population_runner

        if (runner := build_population_runner(setup, config, pulse, store)) is not None:
            return runner
    if config.policy.model is not None:
        from ludus.explore.runners.text_building import build_language_runner

        return build_language_runner(setup, config, pulse, store, has_servers=True)
    from ludus.explore.runners.host_runner import build_host_runner

    return build_host_runner(setup, config, pulse, store)


def hand_over(runner: Runner, channel: Channel[object], work: Work) -> None:
    """Send finished episodes and wait until they are on their way."""
    batch = runner.harvest()
    episodes = to_bytes(episodes_to_table(batch.episodes))
    blob = b"".join([episodes, to_bytes(experiences_to_table(batch.experiences))])
    busy_s, sampled_tokens = work.take(runner.sampled_tokens)
    played = Played(
        episodes=len(batch.episodes),
        episode_bytes=len(episodes),
        steps=batch.experiences.step_count,
        counts=runner.take_counts(),
        busy_s=busy_s,
        sampled_tokens=sampled_tokens,
        speech=None if runner.speech is None else runner.speech.take(),
    )
    channel.send(played, blob)
    channel.drain(SEND_DEADLINE_S)


def main() -> None:
    """Entry point of the process."""
    run_worker(ToExplorer, serve, lambda error: Broken(error=error))


if __name__ == "__main__":
    main()
