"""Playing: runners of boards and of language models, the rollouts that they run, players and prompts.

Light to import. Import runners and actors from their modules: some load JAX, some PyTorch.
"""

from ludus.explore.players.fixed import (
    Player,
    PlayerFactory,
    TextPlayer,
    make_player,
    make_text_player,
    register_player,
)
from ludus.explore.prompts import PromptTemplate, find_prompt, register_prompt

__all__ = [
    "Player",
    "PlayerFactory",
    "PromptTemplate",
    "TextPlayer",
    "find_prompt",
    "make_player",
    "make_text_player",
    "register_player",
    "register_prompt",
]
