"""What a run waits for, in words: the lines about `buffer.feeds` and `cycle` that `ludus check` prints."""

from __future__ import annotations

from ludus.config.run import RunConfig

Row = tuple[str, str]


def describe_waiting(config: RunConfig) -> list[Row]:
    """What feeds the run, and when it trains on that."""
    rows: list[Row] = []
    if feeds := config.buffer.feeds:
        rows.append(("fed by", ", ".join(feed.run for feed in feeds)))
        if config.schedule == "sync":
            buffer = config.buffer
            text = f"{buffer.capacity:,} sequences of any age, {buffer.sampler}, used at most {buffer.reuse} times"
            rows.append(("buffer", text))
    if cycle := config.cycle:
        text = f"wait for {cycle.new_sequences:,} new sequences, train {cycle.updates:,} updates, publish a version"
        export = "" if cycle.export is None else f", export it to {cycle.export} ({cycle.keep_exports:,} kept)"
        rows.append(("cycle", f"{text}{export}"))
        least = max(cycle.new_sequences // 2, 1)
        rows.append(("carried over", f"what came in beyond that; the next round waits for {least:,} at least"))
    return rows
