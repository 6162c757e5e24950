"""The newest recorded episode, as people read it."""

from __future__ import annotations

from rich.text import Text

from ludus.monitor.run_view import RunView
from ludus.reports.number_text import clean, short
from ludus.tui.drawing import PaneSpec, wrap


def draw(view: RunView, width: int) -> list[Text]:
    """Who played what and what came of it, then the moves or the words."""
    episode = view.episode
    if episode is None:
        return [Text("no episode has been recorded yet", "dim")]
    head = f"{episode.game}  task {episode.task}  {episode.purpose}  {episode.plies} plies  {episode.episode}"
    lines = [Text(line, "bold") for line in wrap(clean(head), width, 2)]
    for seat, who in enumerate(episode.seats):
        reward = f"  reward {short(episode.rewards[seat])}" if seat < len(episode.rewards) else ""
        lines += [Text(line) for line in wrap(clean(f"seat {seat}: {who}{reward}"), width, 2)]
    if episode.error:
        lines += [Text(line, "bold red") for line in wrap(clean(f"✗ {episode.error}"), width, 2)]
    lines.append(Text(""))
    for text in episode.lines:
        for line in text.splitlines() or [""]:
            lines += [Text(piece) for piece in wrap(clean(line.rstrip()), width)]
    return lines


EPISODE = PaneSpec(
    title="Episode",
    topics=frozenset({"episode"}),
    draw=draw,
    help="The newest recorded episode: who played, what they got, the moves or the words, and the last position.",
)
