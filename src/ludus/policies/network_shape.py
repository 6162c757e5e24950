"""What a network policy's weights must fit: enough to build the network again without the run's config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from ludus.config import NetworkConfig

if TYPE_CHECKING:
    from ludus.policies.networks import PolicyNetwork

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyShape:
    """What a network must fit: enough to build it again without the run's config."""

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
        return {
            "network": self.network.model_dump(mode="json"),
            "observation_shape": list(self.observation_shape),
            "actions": self.actions,
            "layout": self.layout,
            "games": list(self.games),
            "critic": self.critic,
            "state_size": self.state_size,
            "normalises_value": self.normalises_value,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> PolicyShape:
        """The inverse of `to_json`; other keys are passed over."""
        network: Any = TypeAdapter(NetworkConfig).validate_python(values["network"])
        return cls(
            network=network,
            observation_shape=tuple(values["observation_shape"]),
            actions=int(values["actions"]),
            layout=str(values["layout"]),
            games=tuple(values["games"]),
            critic=str(values.get("critic", "shared")),
            state_size=int(values.get("state_size", 0)),
            normalises_value=bool(values.get("normalises_value", False)),
        )

    def build(self) -> PolicyNetwork:
        """The network, without weights."""
        from ludus.policies.networks import build_network

        return build_network(
            self.network,
            observation_shape=self.observation_shape,
            actions=self.actions,
            layout=self.layout,
            critic=self.critic,
            state_size=self.state_size,
            normalises_value=self.normalises_value,
        )

    def tensor_files(self) -> tuple[str, ...]:
        """All weights are in one file."""
        return (WEIGHTS,)

    def file_of(self, tensor: str) -> str:
        """All weights are in one file."""
        return WEIGHTS

    def metadata(self) -> dict[str, str]:
        """Nothing besides what every file carries."""
        return {}

    def companions(self, tensors: Mapping[str, Any]) -> dict[str, bytes]:
        """A network needs no files besides its weights."""
        return {}
