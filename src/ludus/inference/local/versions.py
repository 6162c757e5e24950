"""Policy versions as the engine computes with them: read from the store when first asked for, kept while in use.

Invariant: a version that a job uses stays; of the others the most recently used `most` are kept.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ludus.errors import ConfigError, DamagedPolicy, LudusError, PolicyError
from ludus.lm.weights import Critic, Tensors
from ludus.policies import PolicyStore
from ludus.records import PolicyRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version ready to compute with."""

    policy: PolicyRef
    weights: Any
    """What the model made of its tensors."""
    group: int
    """Versions of one group can share a forward pass."""
    critic: Critic | None


class Versions:
    """Loaded versions by reference."""

    def __init__(
        self,
        make: Callable[[PolicyRef, Tensors], Version],
        *,
        store: PolicyStore | None,
        most: int,
        forget: Callable[[PolicyRef], None],
    ) -> None:
        """
        Args:
            make: prepares tensors for the model.
            store: where versions that were not added are read from.
            most: versions kept that no job uses.
            forget: called with a version that is given up.
        """
        self._make = make
        self._store = store
        self._most = most
        self._forget = forget
        self._loaded: OrderedDict[PolicyRef, Version] = OrderedDict()
        self._users: Counter[PolicyRef] = Counter()
        self._added: set[PolicyRef] = set()

    def add(self, policy: PolicyRef, tensors: Tensors) -> None:
        """Have a version that is in no store, for good; it replaces one of the same name that no job uses."""
        if self._users[policy]:
            raise PolicyError(f"{policy} is being used and cannot be replaced now")
        if self._loaded.pop(policy, None) is not None:
            self._forget(policy)
        self._loaded[policy] = self._prepare(policy, tensors)
        self._added.add(policy)

    def acquire(self, policy: PolicyRef) -> Version:
        """A version for one job, loaded if need be.

        Raises:
            PolicyError: there is no such version, or it does not fit the model.
        """
        if policy not in self._loaded:
            self._loaded[policy] = self._prepare(policy, self._read(policy))
        self._loaded.move_to_end(policy)
        self._users[policy] += 1
        self._trim()
        return self._loaded[policy]

    def release(self, policy: PolicyRef) -> None:
        """A job no longer uses the version."""
        self._users[policy] -= 1
        if not self._users[policy]:
            del self._users[policy]
            self._trim()

    def _trim(self) -> None:
        spare = [ref for ref in self._loaded if not self._users[ref] and ref not in self._added]
        for policy in spare[: max(0, len(spare) - self._most)]:
            del self._loaded[policy]
            self._forget(policy)

    def _read(self, policy: PolicyRef) -> Tensors:
        if self._store is None:
            known = ", ".join(map(str, self._loaded)) or "none"
            raise PolicyError(f"this engine has no policy {policy}; it has: {known}")
        try:
            return self._store.load(policy).weights
        except (LudusError, OSError) as error:
            raise DamagedPolicy(f"{policy} cannot be loaded: {error}") from error

    def _prepare(self, policy: PolicyRef, tensors: Tensors) -> Version:
        try:
            return self._make(policy, tensors)
        except ConfigError as error:
            raise PolicyError(f"{policy} does not fit the model: {error}") from error
