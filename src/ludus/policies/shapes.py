"""The kinds of policies, and how the shape of a version is found in its card.

Invariant: which kind a version is can be told from its card alone. To add a kind, write a class that is a `Shape` and
put it into `SHAPES` under a key that its `to_json` writes and no other kind's does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from ludus.lm.language_shape import LanguageModelShape
from ludus.policies.network_shape import PolicyShape
from ludus.policies.tabular_shape import TabularShape


class Shape(Protocol):
    """What a kind of policy is to the store: what its weights must fit, and how they lie in a version's folder."""

    @property
    def games(self) -> tuple[str, ...]:
        """Keys of the games that the policy plays."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Goes into the version's card; one of its keys tells which kind of shape it is."""
        ...

    def tensor_files(self) -> tuple[str, ...]:
        """Names of all files that hold weights."""
        ...

    def file_of(self, tensor: str) -> str:
        """Which of them holds a tensor."""
        ...

    def metadata(self) -> Mapping[str, str]:
        """Strings for the headers of these files, besides the store's own."""
        ...

    def companions(self, tensors: Mapping[str, NDArray[Any]]) -> Mapping[str, bytes]:
        """Other files of a version by name; called once, when it is published."""
        ...


ShapeT_co = TypeVar("ShapeT_co", bound=Shape, covariant=True)
AnyShape = PolicyShape | LanguageModelShape | TabularShape
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
