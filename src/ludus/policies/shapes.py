"""The kinds of policies: what the weights of each must fit, and how they lie in a version's folder.

Invariant: which kind a version is can be told from its card alone. To add a kind, write a class with the methods of
these, and put it into `SHAPES` under a key that its `to_json` writes and no other kind's does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import TypeAdapter

from ludus.config import NetworkConfig
from ludus.config.parts import NETWORKS
from ludus.errors import ConfigError
from ludus.lm.language_shape import LanguageModelShape

if TYPE_CHECKING:
    from ludus.policies.networks import PolicyNetwork

LISTING = "information_sets.json"
NetworkFactory = Callable[..., Any]
"""Called as `factory(shape, actions, rngs, **options)`; gives a `flax.nnx.Module`."""


class _OneFile:
    """A version's folder where all tensors are in one file."""

    __slots__ = ()
    tensors_file: ClassVar[str]

    def tensor_files(self) -> tuple[str, ...]:
        """Names of all files that hold weights."""
        return (self.tensors_file,)

    def file_of(self, tensor: str) -> str:
        """Which of them holds a tensor."""
        return self.tensors_file

    def metadata(self) -> dict[str, str]:
        """Strings for the headers of these files, besides the store's own."""
        return {}

    def companions(self, tensors: Mapping[str, Any]) -> dict[str, bytes]:
        """Other files of a version by name; called once, when it is published."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyShape(_OneFile):
    """What a network's weights must fit: enough to build the network again without the run's config."""

    tensors_file = "weights.safetensors"

    network: NetworkConfig
    observation_shape: tuple[int, ...]
    actions: int
    layout: str
    """Which axis of a board observation holds the planes: `channels_first` or `channels_last`."""
    games: tuple[str, ...]
    critic: str = "shared"
    """As `policy.critic`."""
    state_size: int = 0
    """Numbers of the whole state that a central critic sees."""
    normalises_value: bool = False
    """Whether the critic learns normalised returns."""

    def to_json(self) -> dict[str, Any]:
        """JSON from which `from_json` restores the shape."""
        values: dict[str, Any] = _POLICY.dump_python(self, mode="json")
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> PolicyShape:
        """The inverse of `to_json`; other keys are passed over."""
        return _POLICY.validate_python(dict(values))

    def build(self) -> PolicyNetwork:
        """The network, without weights."""
        from ludus.policies.networks import PolicyNetwork

        return PolicyNetwork(
            self.network,
            observation_shape=self.observation_shape,
            actions=self.actions,
            layout=self.layout,
            critic=self.critic,
            state_size=self.state_size,
            normalises_value=self.normalises_value,
        )


_POLICY = TypeAdapter(PolicyShape)


@dataclass(frozen=True, slots=True, kw_only=True)
class TabularShape(_OneFile):
    """A game whose decisions are all written down, and the size of its tables.

    A version holds the meta-strategy of a population as one policy (`seat_<k>/policy`, `[sequences]`: the probability
    of each sequence's action where it is decided) and the population it was made from. Beside them,
    `information_sets.json` says for each seat, in the order of the tensors, what it knows and which actions it has:
    sequence 0 is "no decision yet", then come the actions of the first information set, of the second, and so on.
    """

    tensors_file = "policies.safetensors"

    game: str
    """Key of the game."""
    sequences: tuple[int, ...] = ()
    """Of each seat; empty as long as nobody has walked the game's tree."""
    listing: bytes = field(default=b"", compare=False, repr=False)
    """The content of `information_sets.json`; known where versions are made, not where they are loaded."""

    @property
    def games(self) -> tuple[str, ...]:
        """The one game."""
        return (self.game,)

    def to_json(self) -> dict[str, Any]:
        """JSON from which `from_json` restores the shape."""
        return {"tabular": {"game": self.game, "sequences": list(self.sequences)}, "games": [self.game]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TabularShape:
        """The inverse of `to_json`; other keys are passed over."""
        table = values["tabular"]
        return cls(game=str(table["game"]), sequences=tuple(int(size) for size in table["sequences"]))

    def companions(self, tensors: Mapping[str, Any]) -> dict[str, bytes]:
        """What the rows of the tensors mean."""
        return {LISTING: self.listing}


AnyShape = PolicyShape | LanguageModelShape | TabularShape
ShapeT_co = TypeVar("ShapeT_co", bound=AnyShape, covariant=True)
SHAPES: dict[str, type[PolicyShape] | type[LanguageModelShape] | type[TabularShape]] = {
    "network": PolicyShape,
    "model": LanguageModelShape,
    "tabular": TabularShape,
}
"""By the key that a card of that kind has."""


def shape_from_json(values: Mapping[str, Any]) -> AnyShape:
    """The inverse of a shape's `to_json`, of whichever kind it is; other keys are passed over."""
    for key, kind in SHAPES.items():
        if key in values:
            return kind.from_json(values)
    raise KeyError(" or ".join(SHAPES))


def register_network(name: str, factory: NetworkFactory) -> None:
    """Make a network known under a name, for `policy.network: {kind: custom, name: ...}`.

    Args:
        name: Small letters, digits and _.
        factory: Takes the shape of what a seat sees (boards as `[H, W, C]`), the number of actions, `nnx.Rngs` and the
            options of the config; gives a module with `__call__(seen [B, *shape]) -> (logits [B, A], value [B])`.
    """
    if not callable(factory):
        raise ConfigError(f"network {name!r}: expected a class or function, got {type(factory).__name__}")
    NETWORKS.add(name, factory)
