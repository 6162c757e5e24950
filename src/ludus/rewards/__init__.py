"""What an attempt is worth: the kinds of reward, and their weighted sum in `rewards.py`.

A user's own reward is a function of an `Attempt`; `register_reward` makes it known (docs/recipes/reward.md).
"""

from ludus.rewards.attempt import Attempt, Instant, Mark, Reward
from ludus.rewards.registry import RewardFunction, register_reward
from ludus.rewards.rewards import Rewards, Scored

__all__ = ["Attempt", "Instant", "Mark", "Reward", "RewardFunction", "Rewards", "Scored", "register_reward"]
