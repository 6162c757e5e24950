"""Which policy, in which version. Fixed players (`random`, `mcts-25`) are policies with version 0."""

from __future__ import annotations

from dataclasses import dataclass

from ludus.records.ids import PolicyName, PolicyVersion

FIRST_VERSION = PolicyVersion(0)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PolicyRef:
    """One frozen version of one policy; written `main@12`."""

    name: PolicyName
    version: PolicyVersion = FIRST_VERSION

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @classmethod
    def parse(cls, text: str) -> PolicyRef:
        """Read `main@12`; a bare name means version 0."""
        name, _, version = text.partition("@")
        return cls(name=PolicyName(name), version=PolicyVersion(int(version or 0)))
