"""Networks and language models, and versions of policies as they are published, loaded and exported.

What needs PyTorch is not imported here: `language_models`, `adapters`, `chat` and the others are imported by name.
"""

from ludus.lm.language_shape import LanguageModelShape
from ludus.policies.shapes import AnyShape, PolicyShape, TabularShape, register_network, shape_from_json
from ludus.policies.store import Policy, PolicyStore, as_numpy

__all__ = [
    "AnyShape",
    "LanguageModelShape",
    "Policy",
    "PolicyShape",
    "PolicyStore",
    "TabularShape",
    "as_numpy",
    "register_network",
    "shape_from_json",
]
