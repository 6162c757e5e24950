"""The warm-start process: fixed players play games of words, and the model learns to say what they said.

Started by the supervisor. Every parameter is trained, with the loss `sft` on all that is said in the games, or on the
moves of all seats alone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ludus.config import (
    AdvantageConfig,
    AlgorithmConfig,
    OptimizerConfig,
    RunConfig,
    TermConfig,
    TrainConfig,
    WarmStartConfig,
)
from ludus.errors import RolloutError
from ludus.ingest.warm_start import ToWarmStart, WarmBroken, WarmDone, WarmProgress, WarmStart
from ludus.records import Experiences, derive_seed
from ludus.runtime import Channel, NodeFiles, Pulse, run_one_shot_worker
from ludus.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from ludus.lm.language_models import LanguageModel
    from ludus.train.torch_learner import TorchLearner

REPORT_S = 1.0
RISE = 0.03
"""Share of the steps over which the learning rate rises."""


def work(order: WarmStart, channel: Channel[object], pulse: Pulse, files: NodeFiles) -> WarmDone:
    """Do what is ordered."""
    WarmUp(order, channel, pulse, files).run()
    return WarmDone()


class WarmUp:
    """Play, learn, write."""

    def __init__(self, order: WarmStart, channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
        from ludus.lm.devices import find_device
        from ludus.lm.language_models import load_language_model
        from ludus.plugins import load_plugins

        load_plugins([str(files.outside(path)) for path in order.plugins])
        self._config = RunConfig.model_validate_json(order.config)
        assert self._config.policy.model is not None  # noqa: S101 - whoever ordered it has made sure
        assert self._config.warm_start is not None  # noqa: S101
        self._warm: WarmStartConfig = self._config.warm_start
        self._folder = RunDirectory(files.run).base
        self._channel = channel
        self._pulse = pulse
        self._reported = time.monotonic()
        self._model: LanguageModel = load_language_model(
            self._config.policy.model.model_copy(update={"lora": None, "dtype": "float32"}),
            device=find_device(self._config.train.device),
        )

    def run(self) -> None:
        """From the first game to the model on disk."""
        from ludus.lm.language_shape import write_model_folder

        experiences = self._play()
        if self._warm.learn == "everything":
            experiences = with_everything(experiences)
        weights = self._learn(experiences)
        write_model_folder(self._folder, self._model, weights)

    def _play(self) -> Experiences:
        from ludus.ingest.bot_games import TextTables, bot_tasks
        from ludus.lm.chat import ChatFormat

        config, chat = self._config, ChatFormat(self._model.tokenizer, self._config.explore.sampling)
        tables = TextTables(f"{config.name}/warm-start", config, self._warm.players, chat, self._pulse)
        seed = derive_seed(config.seed, "warm-start")
        tasks = bot_tasks(config.games, self._warm.players, seed, tables.seats, 0, self._warm.games)
        batch = tables.play(tasks, lambda finished: self._report({"warm_start/games": float(finished)}))
        tables.close()
        failed = [episode for episode in batch.episodes if episode.error]
        if len(failed) == len(batch.episodes):
            raise RolloutError(f"none of the {len(failed)} games could be played: {failed[0].error}")
        rows, too_long = that_fit(in_task_order(batch.experiences), self._model.context)
        if not len(rows):
            text = f"all {too_long} conversations are longer than the model's context of {self._model.context:,} tokens"
            raise RolloutError(f"{text}; raise policy.model.context, or choose a shorter explore.prompt.template")
        self._channel.send(WarmProgress(metrics={"warm_start/too_long": float(too_long)}))
        return rows

    def _learn(self, experiences: Experiences) -> dict[str, Any]:
        learner = self._make_learner()
        state: Any = learner.init(self._config.seed)
        rows, size = len(experiences), self._warm.minibatch
        total = self._warm.epochs * -(-rows // size)
        done = 0
        for epoch in range(self._warm.epochs):
            rng = np.random.default_rng(derive_seed(self._config.seed, "warm-start", "order", epoch))
            order = rng.permutation(rows)
            for start in range(0, rows, size):
                part = experiences.take(np.sort(order[start : start + size]))
                state, metrics = learner.train_batch(state, part, seed=done, progress=done / total)
                done += 1
                self._pulse.tick()
                self._report({"warm_start/loss": metrics["loss"], "warm_start/progress": done / total})
        return dict(learner.state_tensors(state)["weights"])

    def _make_learner(self) -> TorchLearner:
        from ludus.train.torch_learner import TorchLearner

        train = TrainConfig(
            minibatch=self._warm.minibatch,
            epochs=1,
            algorithm=AlgorithmConfig(
                preset="reinforce",
                advantage=AdvantageConfig(kind="monte_carlo", normalise=False),
                objective=(TermConfig(loss="sft"),),
            ),
            optimizer=OptimizerConfig(
                kind="adamw",
                learning_rate=self._warm.rate,
                schedule="cosine",
                warmup_fraction=RISE,
                max_grad_norm=1.0,
            ),
        )
        return TorchLearner(self._model, train, lora=None)

    def _report(self, metrics: dict[str, float]) -> None:
        if time.monotonic() - self._reported >= REPORT_S:
            self._reported = time.monotonic()
            self._channel.send(WarmProgress(metrics=metrics))


def that_fit(experiences: Experiences, context: int) -> tuple[Experiences, int]:
    """The sequences that fit a model's context, and how many do not."""
    fits = experiences.lengths <= context
    return experiences.take(np.flatnonzero(fits)), int((~fits).sum())


def in_task_order(experiences: Experiences) -> Experiences:
    """The same sequences however they came in: what is learnt must not depend on which game was over first."""
    return experiences.take(np.lexsort((experiences.sequences["seat"], experiences.sequences["task"])))


def with_everything(experiences: Experiences) -> Experiences:
    """The same sequences with every token to be learnt but the first, before which there is nothing."""
    mask = np.ones(experiences.step_count, np.bool_)
    mask[experiences.offsets[:-1]] = False
    return experiences.replace(steps={"mask": mask})


def main() -> None:
    """Entry point of the process."""
    run_one_shot_worker(ToWarmStart, WarmStart, work, lambda error: WarmBroken(error=error))


if __name__ == "__main__":
    main()
