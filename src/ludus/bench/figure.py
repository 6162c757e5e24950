"""One measured number, beside the peer it is compared with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of `ludus bench`; `peer` was measured in the same run, and `ratio` is ours over theirs."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None

    @classmethod
    def alone(cls, name: str, value: float, unit: str) -> Figure:
        """A figure without a peer."""
        return cls(name=name, value=value, unit=unit)

    @classmethod
    def against(cls, name: str, value: float, unit: str, peer: str, peer_value: float) -> Figure:
        """A figure beside its peer's."""
        return cls(name=name, value=value, unit=unit, peer=peer, peer_value=peer_value, ratio=value / peer_value)

    def to_json(self) -> dict[str, Any]:
        """Everything but the name, under which it is listed."""
        return {key: value for key, value in asdict(self).items() if key != "name"}
