"""Packages that only some runs need: which extra of the distribution brings them, and what to say when one is missing.

Invariant: every hint to install something is written here, so that all of them read the same.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec

from ludus.errors import ConfigError

DISTRIBUTION = "ludus-rl"
"""What pip knows the package `ludus` as."""
NETWORKS = ("flax", "jax", "optax")
LANGUAGE_MODELS = ("torch", "transformers")
_EXTRAS = {
    "chess": ("ludus_chess",),
    "games": ("flax", "jax", "mpe2", "optax", "pettingzoo", "pgx", "pyspiel"),
    "llm": ("gguf", "httpx2", "re2", "starlette", "textarena", "torch", "transformers", "uvicorn"),
    "math_verify": ("math_verify",),
    "onnx": ("onnx",),
    "ray": ("ray",),
    "solver": ("bitbully",),
    "wandb": ("wandb",),
    "web": ("starlette", "uvicorn"),
}
_NAMES = {
    "ludus_chess": "ludus-chess",
    "pygame": "pygame-ce",
    "pyspiel": "open_spiel",
    "re2": "google-re2",
    "math_verify": "math-verify",
}
"""What pip calls packages that are imported under another name."""
_COMPILED = {"ludus_chess": "_native"}
"""Modules that are built: the sources of a package alone are not the package."""


def missing_packages(what: str, *packages: str) -> str:
    """What to install before something works, named as the subject of the sentence; empty when all is there."""
    lacking = [name for name in packages if not is_installed(name)]
    if not lacking:
        return ""
    named = " and ".join(_NAMES.get(name, name) for name in lacking)
    return f"{what} needs {named}; install with: {install_command(*lacking)}"


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    spec = find_spec(package)
    if spec is None or package not in _COMPILED:
        return spec is not None
    return PathFinder.find_spec(f"{package}.{_COMPILED[package]}", spec.submodule_search_locations) is not None


def need_packages(what: str, *packages: str) -> None:
    """Raise ConfigError unless the packages are there."""
    if problem := missing_packages(what, *packages):
        raise ConfigError(problem)


def install_command(*packages: str) -> str:
    """What brings the packages: the extras that have them, and those that no extra has by themselves."""
    of_package = {package: extra for extra, inside in _EXTRAS.items() for package in inside}
    extras = sorted({of_package[package] for package in packages if package in of_package})
    known = {package for package in packages if package in of_package}
    if enough := [extra for extra, inside in _EXTRAS.items() if known and known <= set(inside)]:
        extras = [min(enough, key=lambda extra: len(_EXTRAS[extra]))]  # the smallest that brings all of them
    others = [_NAMES.get(package, package) for package in packages if package not in of_package]
    return " ".join(["pip install", *([f"'{DISTRIBUTION}[{','.join(extras)}]'"] if extras else []), *others])
