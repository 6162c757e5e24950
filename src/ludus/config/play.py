"""What is played and by which network: `games`, `policy`, `explore`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

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


class MlpConfig(Model):
    """Fully connected network with a policy head and a value head."""

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[Annotated[int, Field(gt=0, le=65536)], ...] = Field(default=(128, 128), strict=False)
    """Width of each hidden layer."""
    activation: Literal["relu", "tanh", "silu"] = "relu"


class ResNetConfig(Model):
    """Convolutional residual network for boards, with a policy head and a value head."""

    kind: Literal["resnet"] = "resnet"
    channels: int = Field(default=32, gt=0, le=4096)
    blocks: int = Field(default=2, ge=0, le=256)


NetworkConfig = Annotated[MlpConfig | ResNetConfig, Field(discriminator="kind")]


class PolicyConfig(Model):
    """The policy that learns."""

    name: str = Field(default="main", pattern=r"^[a-z][a-z0-9_-]{0,31}$", examples=["main"])
    """Name in the league; versions are written `main@12`."""
    network: NetworkConfig = MlpConfig()


class ExploreConfig(Model):
    """How games are played."""

    games_in_flight: int = Field(default=256, gt=0, le=1_000_000)
    """Games played at the same time, over all workers."""
    workers: int = Field(default=1, gt=0, le=1024)
    """Explorer processes (split topology)."""
    deadline_s: float = Field(default=60.0, gt=0)
    """Wall-clock limit of one episode; a game that exceeds it is recorded as failed."""
    noise: float = Field(default=0.0, ge=0, lt=1)
    """Share of training moves played uniformly at random and not trained on, so that rare positions are seen."""
    max_length: int | None = Field(default=None, gt=0)
    """Cut episodes after this many plies (they count as truncated). Default: the game's own bound."""
