"""What is played: `games`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator

from ludus.config.base import Model


class GameChoice(Model):
    """One game of the run and how often it is played. The key alone may stand for the whole."""

    shorthand: ClassVar[str] = "a game such as pgx:connect_four"

    key: str = Field(pattern=r"^\S{1,256}$", examples=["pgx:connect_four"])
    """Backend and name: `pgx:connect_four`, `open_spiel:leduc_poker(players=3)`. `ludus games` lists them."""
    weight: float = Field(default=1.0, gt=0)
    """Relative frequency among the run's games."""

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_key(cls, value: Any) -> Any:
        return {"key": value} if isinstance(value, str) else value
