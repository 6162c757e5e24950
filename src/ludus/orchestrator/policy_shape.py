"""What the policy of a run is, from its config and its games: a network, a language model or a table."""

from __future__ import annotations

from ludus.config import RunConfig, needs_critic
from ludus.errors import ConfigError
from ludus.games.protocol import GameSpec
from ludus.lm.language_shape import LanguageModelShape
from ludus.orchestrator.policy_start import Start
from ludus.policies import AnyShape, PolicyShape, TabularShape


def policy_shape(config: RunConfig, specs: dict[str, GameSpec], start: Start[AnyShape] | None = None) -> AnyShape:
    """What the policy is: a network that fits the games, or a language model, which fits all of them."""
    if config.mode == "evaluate" and start is not None:
        return start.shape
    if config.population is not None and config.population.oracle == "exact":
        return TabularShape(game=config.games[0].key)
    if config.policy.model is None:
        return network_shape(config, specs)
    model = config.policy.model
    if start is not None and isinstance(start.shape, LanguageModelShape):
        model = model.model_copy(update={"path": start.shape.model.path})
    return LanguageModelShape(model=model, critic=needs_critic(config.train.algorithm), games=tuple(specs))


def network_shape(config: RunConfig, specs: dict[str, GameSpec]) -> PolicyShape:
    """The one shape that all games of a run must share, because one network plays them."""
    shapes = {(spec.observation_shape, spec.actions) for spec in specs.values()}
    if len(shapes) > 1:
        found = "; ".join(
            f"{key}: sees {spec.observation_shape}, {spec.actions} actions" for key, spec in specs.items()
        )
        raise ConfigError(f"games: one network cannot play games of different shapes ({found})")
    observation_shape, actions = shapes.pop()
    if not observation_shape:
        raise ConfigError(f"games: {', '.join(specs)} has no observation tensor for a network to see")
    layouts = {spec.layout for spec in specs.values()}
    critic = config.policy.critic or "shared"
    return PolicyShape(
        network=config.policy.network,
        observation_shape=observation_shape,
        actions=actions,
        layout=layouts.pop() if len(layouts) == 1 else "channels_first",
        games=tuple(specs),
        critic=critic,
        state_size=_state_size(specs) if critic == "central" else 0,
        normalises_value=bool(config.train.value_normalisation),
    )


def _state_size(specs: dict[str, GameSpec]) -> int:
    """What a central critic sees of every game of the run."""
    sizes = {key: spec.state_size for key, spec in specs.items()}
    if len(set(sizes.values())) > 1:
        found = "; ".join(f"{key}: {size} numbers" for key, size in sizes.items())
        raise ConfigError(f"policy.critic: one central critic cannot see states of different sizes ({found})")
    return next(iter(sizes.values()))
