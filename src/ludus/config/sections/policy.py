"""The policy that learns: `policy`, a small network or a language model, and its `warm_start`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from ludus.config.base import Model, TextOrMapping
from ludus.config.problems import Contradiction, at
from ludus.config.sections.chess import ChessAttentionConfig, ChessResidualConfig
from ludus.config.sections.train_presets import needs_critic, needs_teacher

if TYPE_CHECKING:
    from ludus.config.run import RunConfig


class MemoryConfig(Model):
    """Recurrent state of a network, carried from one decision of a seat to the next within an episode."""

    kind: Literal["gru"] = "gru"
    """The only kind: a gated recurrent unit."""
    size: int = Field(default=64, gt=0, le=4096)
    """Size of the hidden state; twice as large where the critic is a network of its own."""
    chunk: int = Field(default=16, gt=0, le=65536)
    """BPTT length: gradients flow through this many decisions; the hidden state before them is recomputed, without
    gradient.
    `train.minibatch` divided by this is the number of such chunks in an optimizer step."""


class MlpConfig(Model):
    """Fully connected network with a policy head and a value head."""

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[Annotated[int, Field(gt=0, le=65536)], ...] = Field(default=(128, 128), strict=False)
    """Width of each hidden layer."""
    activation: Literal["relu", "tanh", "silu"] = "relu"
    """Between its layers."""
    memory: MemoryConfig | None = None
    """A recurrent unit on top of the layers, for partially observable games."""


class ResNetConfig(Model):
    """Convolutional residual network for boards, with a policy head and a value head."""

    kind: Literal["resnet"] = "resnet"
    channels: int = Field(default=32, gt=0, le=4096)
    """Of every layer."""
    blocks: int = Field(default=2, ge=0, le=256)
    """Residual blocks."""


class CustomNetworkConfig(Model):
    """A network of a plugin, with a policy head and a value head."""

    kind: Literal["custom"] = "custom"
    name: str = Field(min_length=1, examples=["my_network"])
    """What the plugin registered."""
    options: dict[str, Any] = Field(default={})
    """Keyword arguments of what makes it."""


NetworkConfig = Annotated[
    MlpConfig | ResNetConfig | ChessResidualConfig | ChessAttentionConfig | CustomNetworkConfig,
    Field(discriminator="kind"),
]


class LoraConfig(Model):
    """Low-rank adapters: only these are trained and published; the base model is frozen."""

    rank: int = Field(default=16, gt=0, le=1024)
    """Of every adapter matrix."""
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
    publish_dtype: Literal["float32", "bfloat16"] = "float32"
    """Of a whole model's versions (`lora: null`). bfloat16 halves them; explorers play with rounded weights, while the
    trained ones stay float32."""
    context: int | None = Field(default=None, gt=1)
    """Tokens that a conversation may have. Default: what the model was made for, at most 4,096."""


class TeacherConfig(TextOrMapping):
    """Another language model that says how likely it would have said what the policy said. The path alone may stand for
    the whole.
    """

    shorthand: ClassVar[str] = "a model such as Qwen/Qwen3-4B"
    shorthand_key: ClassVar[str] = "path"

    path: str | None = Field(default=None, min_length=1, max_length=4096, examples=["models/large", "Qwen/Qwen3-4B"])
    """A folder, or the id of a model on the hub, as in `policy.model`. Its tokenizer must be the policy's."""
    run: str | None = Field(default=None, min_length=1, max_length=4096, examples=["runs/large", "runs/large@12"])
    """Instead of a path: a run, or one version of its policy. This run keeps a copy of it."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What it computes in."""


class PolicyConfig(Model):
    """The policy that learns: a small network, or a language model."""

    name: str = Field(default="main", pattern=r"^[a-z][a-z0-9_-]{0,31}$", examples=["main"])
    """Name in the league; versions are written `main@12`."""
    network: NetworkConfig = MlpConfig()
    """The network that learns; not used with `model`."""
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
    """Language models, with the advantage `distill`: the teacher to distil from."""


def check_policy(config: RunConfig) -> Iterator[Contradiction]:
    """What a network, a language model and a teacher need from other keys."""
    yield from _network(config)
    yield from _teacher(config)
    model = config.policy.model
    if model is not None and model.lora is not None and model.publish_dtype != "float32":
        yield at("policy.model.publish_dtype", "adapters are published as float32; leave it out, or write lora: null")
    if has_whole_models_at_servers(config):
        yield from _one_model_a_server(config)


def has_whole_models_at_servers(config: RunConfig) -> bool:
    """Whether every parameter is trained and published, and vLLM servers get all of them."""
    model = config.policy.model
    return model is not None and model.lora is None and config.explore.engine.kind == "vllm"


def _one_model_a_server(config: RunConfig) -> Iterator[Contradiction]:
    """A server has one whole model at a time, so nobody can play against a past one."""
    path, text = "policy.model.lora", "a vLLM server has one whole model at a time, and {} would need one of its own"
    past = [choice.kind for choice in config.league.opponents if choice.kind not in ("mirror", "fixed")]
    if config.population is not None:
        yield at(path, f"{text.format('each member of a population')}; write a lora")
    elif past:
        needs = text.format(f"past versions (league.opponents: {past[0]})")
        yield at(path, f"{needs}; write a lora, or opponents of the kinds mirror and fixed")
    elif config.games and config.evaluate.pool_opponents and config.mode != "evaluate":
        needs = text.format("the past versions that new ones are rated against")
        yield at(path, f"{needs}; write a lora, or evaluate.pool_opponents: 0")


def _network(config: RunConfig) -> Iterator[Contradiction]:
    network, critic, train = config.policy.network, config.policy.critic, config.train
    if config.policy.model is not None:
        if critic not in (None, "shared"):
            yield at("policy.critic", "is for networks; leave it out, or leave out policy.model")
        if train.value_normalisation:
            yield at("train.value_normalisation", "is for networks; leave it out, or leave out policy.model")
        return
    if train.value_normalisation and train.trainers > 1:
        text = "the scale of values is one trainer's; write train.trainers: 1, or train.value_normalisation: false"
        yield at("train.trainers", text)
    if network.kind != "mlp" and critic not in (None, "shared"):
        text = f"{critic} needs policy.network.kind: mlp; a {network.kind} shares its critic, write shared"
        yield at("policy.critic", text)
    if not needs_critic(train.algorithm):
        if critic not in (None, "shared"):
            yield at("policy.critic", "has no effect: train.algorithm.objective has no value term")
        if train.value_normalisation:
            yield at("train.value_normalisation", "has no effect: train.algorithm.objective has no value term")
    if network.kind == "mlp" and network.memory is not None and train.minibatch < network.memory.chunk:
        text = f"{network.memory.chunk} decisions are more than train.minibatch ({train.minibatch}); write at most that"
        yield at("policy.network.memory.chunk", text)


def _teacher(config: RunConfig) -> Iterator[Contradiction]:
    teacher, algorithm = config.policy.teacher, config.train.algorithm
    if teacher is None:
        if needs_teacher(algorithm) and config.policy.model is not None:
            text = "is distill, but policy.teacher is not given; write policy: {teacher: {path: ...}}"
            yield at("train.algorithm.advantage.kind", text)
        return
    if not needs_teacher(algorithm):
        kind = algorithm.advantage.kind if algorithm.advantage else "none"
        text = f"has no effect: train.algorithm.advantage.kind is {kind}; write distill there, or leave it out"
        yield at("policy.teacher", text)
    if (teacher.path is None) == (teacher.run is None):
        text = "policy.teacher.path is a model and policy.teacher.run another run's policy; write one of the two"
        yield at("policy.teacher", text)
