"""Networks, and versions of policies as they are published, loaded and exported."""

from ludus.policies.store import Policy, PolicyShape, PolicyStore, as_numpy

__all__ = ["Policy", "PolicyShape", "PolicyStore", "as_numpy"]
