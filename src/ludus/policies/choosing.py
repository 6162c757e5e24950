"""Which version of a run's policies somebody means."""

from __future__ import annotations

from ludus.config import RunConfig
from ludus.errors import ConfigError
from ludus.policies.store import PolicyStore
from ludus.records import PolicyRef
from ludus.storage.run_directory import RunDirectory


def choose_policy(run: RunDirectory, config: RunConfig, text: str | None) -> PolicyRef:
    """The version that the user named (`main@12` or `12`), or the newest."""
    store = PolicyStore(run.policies)
    names = [config.policy.name, *store.names()]  # of a population, agents may have other names
    versions = next((found for name in names if (found := store.versions(name))), [])
    if not versions:
        raise ConfigError(f"{run.path} has published no policy yet")
    if text is None:
        return versions[-1]
    try:
        wanted = PolicyRef.parse(f"{config.policy.name}@{text}" if text.isdigit() else text)
    except ValueError:
        raise ConfigError(f"policy {text}: expected a version such as {versions[-1]}") from None
    if not store.has(wanted):
        raise ConfigError(f"no policy {wanted} in {run.path}; there are: {', '.join(map(str, versions))}")
    return wanted
