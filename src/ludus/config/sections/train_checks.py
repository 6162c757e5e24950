"""What cannot hold in `train.algorithm`: terms, their sources and options, mu, and what is for language models alone.

To add a check: a `yield` in the function it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator

from ludus.config.problems import Contradiction, Path, nearest_word, show
from ludus.config.run import RunConfig
from ludus.config.sections.train import TermConfig
from ludus.config.sections.train_losses import LOSS_OPTIONS, LOSS_SOURCES

_PATH: Path = ("train", "algorithm")
_OBJECTIVE: Path = (*_PATH, "objective")
_BOARD_KINDS = ("gae", "monte_carlo", "vtrace")


def objective_contradictions(config: RunConfig) -> Iterator[Contradiction]:
    """Everything that cannot hold in a filled `train.algorithm`."""
    terms = config.train.algorithm.objective
    if terms == ():
        yield _at(_OBJECTIVE, "has no terms; write at least one, or leave it out for the preset's")
    for place, term in enumerate(terms or ()):
        path = (*_OBJECTIVE, place)
        if term.loss in LOSS_OPTIONS:
            yield from _options(path, term)
            yield from _source(path, term)
        else:
            near = nearest_word(term.loss, LOSS_OPTIONS)
            text = f"there is no loss {show(term.loss)}; there are {', '.join(LOSS_OPTIONS)}"
            yield _at((*path, "loss"), text + (f" — did you mean {near}?" if near else ""))
    yield from _mu(config)
    if config.policy.model is None:
        yield from _boards(config)


def _at(path: Path, text: str) -> Contradiction:
    return Contradiction(path=path, text=text)


def _options(path: Path, term: TermConfig) -> Iterator[Contradiction]:
    known = LOSS_OPTIONS[term.loss]
    for name, value in term.options.items():
        where = (*path, "options", name)
        if name not in known:
            yield _at(where, f"the loss {term.loss} has no such option; its options: {', '.join(known) or 'none'}")
        elif not known[name].accepts(value):
            yield _at(where, f"the loss {term.loss} expects {known[name].expected}, got {show(value)}")


def _source(path: Path, term: TermConfig) -> Iterator[Contradiction]:
    allowed = LOSS_SOURCES.get(term.loss, ("on_policy",))
    if term.source not in allowed:
        text = f"the loss {term.loss} cannot learn from {term.source}; write {' or '.join(allowed)}"
        yield _at((*path, "source"), text)
    elif term.loss == "kl" and term.source != "on_policy" and term.options.get("reference") != "base":
        text = f"rows of {term.source} have no behaviour probabilities; write reference: base, or source: on_policy"
        yield _at((*path, "source"), text)


def _mu(config: RunConfig) -> Iterator[Contradiction]:
    mu, terms = config.train.algorithm.mu, config.train.algorithm.objective or ()
    shared = [place for place, term in enumerate(terms) if term.share]
    if mu is None:
        for place in shared:
            text = f"is {terms[place].share}, but train.algorithm.mu is not given; write mu: {{peak: 0.1}}, or no share"
            yield _at((*_OBJECTIVE, place, "share"), text)
        return
    if not shared:
        yield _at((*_PATH, "mu"), "has no effect: no term of train.algorithm.objective has a share")
    if (together := mu.warmup_fraction + mu.decay_fraction) > 1:
        text = f"and train.algorithm.mu.warmup_fraction are {together:g} of the run together; write at most 1"
        yield _at((*_PATH, "mu", "decay_fraction"), text)


def _boards(config: RunConfig) -> Iterator[Contradiction]:
    algorithm, instead = config.train.algorithm, "is for language models; give policy.model, or"
    if algorithm.kl_reward is not None:
        yield _at((*_PATH, "kl_reward"), f"{instead} leave it out")
    if algorithm.advantage is not None and (kind := algorithm.advantage.kind) not in _BOARD_KINDS:
        yield _at((*_PATH, "advantage", "kind"), f"{kind} {instead} write {', '.join(_BOARD_KINDS[:-1])} or vtrace")
    for place, term in enumerate(algorithm.objective or ()):
        path = (*_OBJECTIVE, place)
        if term.loss == "dpo":
            yield _at((*path, "loss"), f"dpo {instead} write another loss")
        if term.options.get("reference") == "base":
            yield _at((*path, "options", "reference"), f"base {instead} write behaviour")
        if term.options.get("importance") in ("truncate", "mask"):
            yield _at((*path, "options", "importance"), f"{instead} write none")
