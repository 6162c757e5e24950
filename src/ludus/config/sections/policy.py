"""The policy that learns: `policy`, a small network or a language model."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ludus.config.base import Model


class MemoryConfig(Model):
    """What a network carries from one decision of a seat to its next one, within an episode."""

    kind: Literal["gru"] = "gru"
    size: int = Field(default=64, gt=0, le=4096)
    """Numbers that are remembered; twice as many where the critic is a network of its own."""
    chunk: int = Field(default=16, gt=0, le=65536)
    """Training goes back through this many decisions; what was remembered before them is computed, and taken as given.
    `train.minibatch` divided by this is the number of such stretches in an optimizer step."""


class MlpConfig(Model):
    """Fully connected network with a policy head and a value head."""

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[Annotated[int, Field(gt=0, le=65536)], ...] = Field(default=(128, 128), strict=False)
    """Width of each hidden layer."""
    activation: Literal["relu", "tanh", "silu"] = "relu"
    memory: MemoryConfig | None = None
    """A recurrent unit on top of the layers, for games in which what a seat sees now is not all that it knows."""


class ResNetConfig(Model):
    """Convolutional residual network for boards, with a policy head and a value head."""

    kind: Literal["resnet"] = "resnet"
    channels: int = Field(default=32, gt=0, le=4096)
    blocks: int = Field(default=2, ge=0, le=256)


NetworkConfig = Annotated[MlpConfig | ResNetConfig, Field(discriminator="kind")]


class LoraConfig(Model):
    """Low-rank adapters: what is trained and published is these, the model below them stays as it is."""

    rank: int = Field(default=16, gt=0, le=1024)
    alpha: float = Field(default=32.0, gt=0)
    """Adapters count with alpha / rank."""
    targets: tuple[str, ...] | None = Field(default=None, strict=False, min_length=1)
    """Names of the linear layers that get one, such as `q_proj`. Default: every linear layer but the output head."""


class LanguageModelConfig(Model):
    """A causal language model in Hugging Face format."""

    path: str = Field(min_length=1, examples=["models/tiny", "Qwen/Qwen3-0.6B"])
    """A folder, or the id of a model on the hub. Only safetensors are read, and no code from the model."""
    lora: LoraConfig | None = LoraConfig()
    """null trains every parameter."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What the model computes in. Adapters and optimizer are float32."""
    context: int | None = Field(default=None, gt=1)
    """Tokens that a conversation may have. Default: what the model was made for, at most 4,096."""


class TeacherConfig(Model):
    """Another language model that says how likely it would have said what the policy said. The path alone may stand for
    the whole.
    """

    shorthand: ClassVar[str] = "a model such as Qwen/Qwen3-4B"

    path: str | None = Field(default=None, min_length=1, max_length=4096, examples=["models/large", "Qwen/Qwen3-4B"])
    """A folder, or the id of a model on the hub, as in `policy.model`. Its tokenizer must be the policy's."""
    run: str | None = Field(default=None, min_length=1, max_length=4096, examples=["runs/large", "runs/large@12"])
    """Instead of a path: a run, or one version of its policy. This run keeps a copy of it."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What it computes in."""

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


class PolicyConfig(Model):
    """The policy that learns: a small network, or a language model."""

    name: str = Field(default="main", pattern=r"^[a-z][a-z0-9_-]{0,31}$", examples=["main"])
    """Name in the league; versions are written `main@12`."""
    network: NetworkConfig = MlpConfig()
    critic: Literal["shared", "own", "central"] | None = None
    """What estimates values. `shared`: a head on the policy's network. `own`: a network of its own that sees what the
    seat sees (IPPO). `central`: one that sees the state of the whole game as well (MAPPO); the policy never does.
    Default: as the preset has it, which is `shared` but for ippo and mappo."""
    model: LanguageModelConfig | None = None
    """When given, the policy is this language model and `network` does not count."""
    start: str | None = Field(default=None, min_length=1, max_length=4096, examples=["runs/sft", "runs/sft@12"])
    """A run, or one version of its policy, whose weights this policy begins with instead of fresh ones or the model's
    own. What a language model there stands on (a warm start) comes along. In the mode evaluate: what is measured."""
    teacher: TeacherConfig | None = None
    """Language models, with the advantage `distill`: whom the policy is to become like."""
