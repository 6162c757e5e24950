"""How much memory and disk a run of a language model takes on GPUs, part by part, before anything is started.

Every number is derived from the model's sizes and the config; nothing is fitted to measurements. Assumed of a trainer:
trained weights, their gradient and the optimizer in float32, sharded over all trainers; a frozen base in
`policy.model.dtype`, sharded; layers gathered one by one in bfloat16, the next while one computes; embeddings and head
gathered throughout; flash attention. Not counted: what CUDA itself and the allocator's gaps take, for which
`RESERVE` stays free on each GPU. Invariant: the peak is the largest of the phases, not the sum of everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from ludus.config import LanguageModelConfig, RunConfig, needs_critic
from ludus.config.sections.engines import VllmEngineConfig
from ludus.config.sections.train_presets import terms_of
from ludus.errors import ConfigError
from ludus.lm.model_sizes import ModelSizes

MASTER, COMPUTE = 4, 2
"""Bytes of a number: trained weights, their gradient and each moment; what is computed with on GPUs."""
MOMENTS = {"adam": 2, "adamw": 2, "nadamw": 2, "rmsprop": 1, "sgd": 0}
TOKENS_AT_ONCE = 16_384
"""`train.tokens_per_micro_batch` on a GPU."""
CONTEXT = 4096
"""`policy.model.context`, at most, where it is not given."""
HEAD_BYTES, TABLES = 1 << 30, 4
"""Of pieces of logits on a GPU, and tables of them that are held at once (`train/torch_head.py`)."""
RESERVE = 0.08
"""Share of a GPU that stays free: CUDA's own memory, and gaps between tensors."""
VLLM_SHARE = 0.9
"""Of a GPU's memory that a vLLM server takes (`--gpu-memory-utilization`)."""
PROCESS_BYTES, TRAINER_BYTES, TOKENIZER_BYTES = 400 << 20, 3 << 30, 600 << 20
"""Of host memory: the loop; a trainer, with CUDA and PyTorch; an explorer that has a tokenizer and no weights."""
LOCAL_CACHE = 1 << 30
"""Keys and values that the engine local keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is."""

    gpus: int
    gpu_bytes: int
    host_bytes: int = 0
    """0: not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerBytes:
    """On one GPU of a trainer."""

    state: int
    """Weights, gradient and optimizer, and a frozen base: this GPU's share."""
    gathered: int
    """Layers and embeddings as they compute, and their gradients before they are shared out."""
    kept: int
    """Activations that wait for the backward pass."""
    layer: int
    """What one layer computes, and its gradient."""
    head: int
    """Pieces of logits, and hidden states before them."""

    @property
    def peak(self) -> int:
        """While the head computes, or the last layer's gradient; the rest is there all the time."""
        return self.state + self.gathered + self.kept + max(self.layer, self.head)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBytes:
    """On one GPU of a vLLM server."""

    weights: int
    cache: int
    """Left for keys and values."""
    cache_of_a_token: int

    @property
    def tokens(self) -> int:
        """Whose keys and values fit."""
        return max(self.cache, 0) // self.cache_of_a_token


def trained_parameters(config: RunConfig, sizes: ModelSizes) -> int:
    """Of adapters, or of the whole model; and of a critic."""
    lora = language_model(config).lora
    critic = sizes.width + 1 if needs_critic(config.train.algorithm) else 0
    return (sizes.parameters if lora is None else sizes.adapter_parameters(lora.rank)) + critic


def trainer_bytes(config: RunConfig, sizes: ModelSizes, teacher: ModelSizes | None = None) -> TrainerBytes:
    """On each GPU of the trainers."""
    model, train = language_model(config), config.train
    frozen = MASTER if model.dtype == "float32" else COMPUTE
    tokens = max(train.tokens_per_micro_batch or TOKENS_AT_ONCE, context_of(config, sizes))
    is_whole = model.lora is None
    held = trained_parameters(config, sizes) * MASTER * (2 + MOMENTS[train.optimizer.kind])
    base = sizes.parameters * frozen if not is_whole or _has_reference(config) else 0
    graded = COMPUTE + MASTER if is_whole else 0
    gathered = sizes.root_parameters * (COMPUTE + graded) + sizes.layer_parameters * (2 * COMPUTE + graded)
    layer = tokens * layer_bytes(sizes)
    between = tokens * sizes.width * COMPUTE * sizes.layers
    return TrainerBytes(
        # A teacher is whole on each trainer.
        state=(held + base) // train.trainers + (teacher.parameters * COMPUTE if teacher else 0),
        gathered=gathered,
        kept=between if train.activation_checkpointing else layer * (sizes.layers - 1),
        layer=layer + tokens * gradient_bytes(sizes),
        head=min(HEAD_BYTES, TABLES * MASTER * sizes.vocabulary * tokens) + 2 * tokens * sizes.width * COMPUTE,
    )


def layer_bytes(sizes: ModelSizes) -> int:
    """What one layer keeps of one token for its gradient.

    Two norms: their input in float32, what is normalised, and their output. Norms of queries and keys likewise, where
    there are some. Queries, keys and values as attention reads them, and its output. The MLP: gate, its activation,
    the other branch, and their product.
    """
    width, ends = sizes.width, sizes.queries + sizes.keys
    norms = 2 * width * (MASTER + 2 * COMPUTE)
    heads = ends * (MASTER + COMPUTE) * sizes.has_head_norms
    attention = COMPUTE * (ends + sizes.keys + sizes.queries)
    return norms + heads + attention + 4 * COMPUTE * sizes.inner


def gradient_bytes(sizes: ModelSizes) -> int:
    """Of one token, at once: of the MLP's product, its gate and its other branch."""
    return 3 * COMPUTE * sizes.inner


def server_bytes(config: RunConfig, machine: Machine, sizes: ModelSizes) -> ServerBytes:
    """On each GPU of a vLLM server."""
    engine, lora = config.explore.engine, language_model(config).lora
    parts = engine.tensor_parallel if isinstance(engine, VllmEngineConfig) else 1
    adapters = 0 if lora is None else 8 * sizes.adapter_parameters(lora.rank)
    weights = (sizes.parameters + adapters) * COMPUTE // parts
    one_layer = TOKENS_AT_ONCE * (layer_bytes(sizes) // parts)
    cache = int(machine.gpu_bytes * VLLM_SHARE) - weights - one_layer
    of_a_token = 2 * sizes.layers * max(sizes.keys // parts, sizes.head) * COMPUTE
    return ServerBytes(weights=weights, cache=cache, cache_of_a_token=of_a_token)


def host_bytes(config: RunConfig, sizes: ModelSizes) -> int:
    """Of the machine's own memory, over all processes of the run; of trainers, what passes through it one tensor at a
    time."""
    explorers = config.explore.workers
    largest = max(sizes.vocabulary * sizes.width, sizes.layer_parameters) * MASTER
    each = TOKENIZER_BYTES
    if not isinstance(config.explore.engine, VllmEngineConfig):
        each += sizes.parameters * (MASTER if language_model(config).dtype == "float32" else COMPUTE) + LOCAL_CACHE
    return PROCESS_BYTES + config.train.trainers * (TRAINER_BYTES + 2 * largest) + explorers * each


def server_gpus(config: RunConfig) -> int:
    """GPUs of the servers that the run starts; one that somebody else started has its own."""
    engine = config.explore.engine
    return engine.tensor_parallel * (engine.servers or 0) if isinstance(engine, VllmEngineConfig) else 0


def context_of(config: RunConfig, sizes: ModelSizes) -> int:
    """Tokens that a conversation may have."""
    return min(language_model(config).context or CONTEXT, sizes.context)


def language_model(config: RunConfig) -> LanguageModelConfig:
    """The language model that is trained. Raises ConfigError if it is none."""
    if config.policy.model is None:
        raise ConfigError("--plan is for language models; this config has no policy.model")
    return config.policy.model


def _has_reference(config: RunConfig) -> bool:
    """Whether a whole model is compared with the frozen one that it began as."""
    terms = terms_of(config.train.algorithm)
    asks = any(term.loss == "dpo" or term.options.get("reference") == "base" for term in terms)
    return asks or config.train.algorithm.kl_reward is not None
