"""The peer of `bench loop`: Stable-Baselines3's PPO on OpenSpiel's Connect Four, one seat against a random player."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pyspiel
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

GAMES = 8
BATCH_STEPS = 2048


class AgainstRandom(gymnasium.Env[Any, Any]):
    """The learner's seat is drawn for each game; an illegal move loses."""

    def __init__(self, seed: int) -> None:
        self._game = pyspiel.load_game("connect_four")
        size = int(np.prod(self._game.observation_tensor_shape()))
        self.observation_space = gymnasium.spaces.Box(0, 1, (size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(self._game.num_distinct_actions())
        self._random = random.Random(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        self._state = self._game.new_initial_state()
        self._seat = self._random.randrange(2)
        self._let_opponent_move()
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play, and let the opponent answer."""
        if int(action) not in self._state.legal_actions():
            return self._observe(), -1.0, True, False, {}
        self._state.apply_action(int(action))
        self._let_opponent_move()
        over = self._state.is_terminal()
        return self._observe(), float(self._state.returns()[self._seat]) if over else 0.0, over, False, {}

    def _observe(self) -> Any:
        return np.asarray(self._state.observation_tensor(self._seat), np.float32)

    def _let_opponent_move(self) -> None:
        if not self._state.is_terminal() and self._state.current_player() != self._seat:
            self._state.apply_action(self._random.choice(self._state.legal_actions()))


def train_sb3(seconds: float) -> dict[str, float]:
    """Agent steps trained, CPU-seconds and wall-seconds after one batch of warm-up."""
    torch.set_num_threads(1)
    games = DummyVecEnv([partial(AgainstRandom, number) for number in range(GAMES)])
    model = PPO(
        "MlpPolicy",
        games,
        n_steps=BATCH_STEPS // GAMES,
        batch_size=256,
        n_epochs=4,
        device="cpu",
        policy_kwargs={"net_arch": [128, 128]},
    )
    model.learn(BATCH_STEPS)
    steps, cpu, wall = model.num_timesteps, time.process_time(), time.perf_counter()
    while time.perf_counter() - wall < seconds:
        model.learn(BATCH_STEPS, reset_num_timesteps=False)
    return {
        "steps": model.num_timesteps - steps,
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
    }
