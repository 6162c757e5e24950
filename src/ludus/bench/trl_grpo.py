"""The peer of `bench lm`: TRL's GRPOTrainer on the tiny model, every parameter trained, one thread."""

from __future__ import annotations

import tempfile
import time
from random import Random
from typing import Any

import torch
import transformers
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

from ludus.bench.word_games import LETTERS, PROMPT_LETTERS, share_of_e
from ludus.lm.model_folder import find_model_folder

WARM_UP_STEPS = 3
STEPS = 1_000_000


class Timed(GRPOTrainer):
    """Counts the CPU time of generation; stops the rest when time is up."""

    generation_s = 0.0

    def _generate_single_turn(self, *arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        made = super()._generate_single_turn(*arguments, **options)  # type: ignore[no-untyped-call]
        self.generation_s += time.process_time() - began
        return made


class Clock(TrainerCallback):
    """Notes when the warm-up ended, and ends the training."""

    def __init__(self, seconds: float) -> None:
        self.trainer: Any = None
        self.marks: list[tuple[float, float, float]] = []
        self._seconds = seconds

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop when enough was measured."""
        self.marks.append((time.perf_counter(), time.process_time(), self.trainer.generation_s))
        measured = len(self.marks) > WARM_UP_STEPS
        control.should_training_stop = measured and self.marks[-1][0] - self.marks[WARM_UP_STEPS - 1][0] > self._seconds


def train_trl(seconds: float, tokens: int, *, prompts: int, group: int) -> dict[str, float]:
    """Completion tokens trained on after the warm-up, and the CPU time of the whole and of generation."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    folder = str(find_model_folder("ludus/tiny"))
    clock = Clock(seconds)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as output:
        trainer = Timed(
            model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
            reward_funcs=reward,
            args=settings(output, tokens, batch=prompts * group, group=group),
            train_dataset=prompts_to_answer(),
            processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
            callbacks=[clock],
        )
        clock.trainer = trainer
        trainer.train()
    first, last = clock.marks[WARM_UP_STEPS - 1], clock.marks[-1]
    steps = (len(clock.marks) - WARM_UP_STEPS) * prompts * group * tokens
    return {
        "steps": float(steps),
        "wall_s": last[0] - first[0],
        "cpu_s": last[1] - first[1],
        "generation_cpu_s": last[2] - first[2],
    }


def settings(output: str, tokens: int, *, batch: int, group: int) -> GRPOConfig:
    """One optimizer step for each batch, no reference model; completions are never shorter than `tokens`."""
    return GRPOConfig(
        output_dir=output,
        per_device_train_batch_size=batch,
        num_generations=group,
        max_completion_length=tokens,
        max_steps=STEPS,
        beta=0.0,
        learning_rate=3e-4,
        temperature=1.0,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        generation_kwargs={"min_new_tokens": tokens},
    )


def prompts_to_answer() -> Dataset:
    """Random letters, as `bench_letters` shows them."""
    random = Random(0)
    lines = ["".join(random.choices(LETTERS, k=PROMPT_LETTERS)) for _ in range(4096)]
    return Dataset.from_list([{"prompt": [{"role": "user", "content": line}]} for line in lines])


def reward(completions: list[Any], **_: Any) -> list[float | None]:
    """The share of the letter e."""
    return [share_of_e(completion[0]["content"]) for completion in completions]
