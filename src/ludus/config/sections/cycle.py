"""Runs that wait for data: what they are fed by (`buffer.feeds`), and when they train on it (`cycle`).

Invariant: nothing here opens a file. `ludus.sources.feeds` follows the feeds, `ludus.runs.cycle` counts the rounds. To
add a kind of feed: a model with its own `kind` here, and its code there.
"""

from __future__ import annotations

from pydantic import Field

from ludus.config.base import Model


class CycleConfig(Model):
    """Wait for new data, train, publish, export, and so on: each time around is a round.

    What has come in beyond what was waited for is carried over: the next round waits for that much less, but for half
    of `new_sequences` at least.
    """

    new_sequences: int = Field(gt=0, le=10**9, examples=[2000])
    """New sequences to wait for before each round."""
    updates: int = Field(gt=0, le=10**6, examples=[100])
    """Updates of each round. A version is published after each round."""
    export: str | None = Field(default="exports", min_length=1, max_length=4096)
    """Folder that gets `<policy>-<version>/` after each round; one that is not absolute is under the run's directory.
    null: nothing is exported."""
    keep_exports: int = Field(default=10, gt=0, le=10**6)
    """Exports kept; the oldest go."""
