"""One attempt on the terminal: what was said, token by token, and what it was worth."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

MOST_SHOWN = 2_000
"""Characters of a field or a message."""
Tokens = Sequence[Mapping[str, Any]]


def show_attempt(shown: Mapping[str, Any], *, every_token: bool, console: Console | None = None) -> None:
    """Print what `trace` gives; `every_token`: those that were not sampled one by one, too."""
    out = console or Console()
    task = shown["task"]
    out.print(Text(f"task {task['id']}  {task['set']}  seed {task['seed']}  {shown['policy']}", style="bold"))
    for name, value in task["inputs"].items():
        out.print(Text(f"  {name}: {_short(value)}"))
    for number, turn in enumerate(shown["turns"]):
        out.print(_panel(turn["heard"], f"chat {turn['chat']}: told", "dim"))
        out.print(_panel(turn["said"], f"reply {number}", "green"))
    for number, tokens in enumerate(shown["chats"]):
        out.print(_token_table(number, tokens, every_token))
    _show_worth(shown, out)


def _panel(text: str, title: str, style: str) -> Panel:
    return Panel(Text(_short(text)), title=title, title_align="left", border_style=style)


def _token_table(number: int, tokens: Tokens, every_token: bool) -> Table:
    sampled = sum(token["mask"] for token in tokens)
    table = Table(title=f"chat {number}: {len(tokens)} tokens, {sampled} sampled", title_justify="left")
    for name in ("place", "id", "text", "mask", "logp", "version", "reward"):
        table.add_column(name, justify="left" if name == "text" else "right", overflow="fold")
    for row, is_sampled in _rows(tokens, every_token):
        table.add_row(*map(Text, row), style="" if is_sampled else "dim")
    return table


def _rows(tokens: Tokens, every_token: bool) -> Iterator[tuple[list[str], bool]]:
    place = 0
    for is_sampled, run in groupby(tokens, key=lambda token: bool(token["mask"])):
        several = list(run)
        if is_sampled or every_token:
            for token in several:
                yield _row(place, token), is_sampled
                place += 1
        else:
            text = _short(repr("".join(token["text"] for token in several))[1:-1], 200)
            yield [f"{place}-{place + len(several) - 1}", "", text, "0", "", "", ""], False
            place += len(several)


def _row(place: int, token: Mapping[str, Any]) -> list[str]:
    if not token["mask"]:
        return [str(place), str(token["id"]), repr(token["text"])[1:-1], "0", "", "", ""]
    reward = f"{token['reward']:g}" if token["reward"] else ""
    logp = f"{token['logp']:.4f}"
    return [str(place), str(token["id"]), repr(token["text"])[1:-1], "1", logp, str(token["version"]), reward]


def _show_worth(shown: Mapping[str, Any], out: Console) -> None:
    if shown["error"]:
        out.print(Text(f"failed: {shown['error']}", style="bold red"))
        if shown["traceback"]:
            out.print(Text(shown["traceback"], style="red"), soft_wrap=True)
        return
    out.print(Text(f"response: {_short(shown['response'])}"))
    for name, value in shown["rewards"].items():
        note = shown["notes"].get(name, "")
        out.print(Text(f"  reward {name}: {value:g}" + (f"  ({_short(note, 200)})" if note else "")))
    for name, value in shown["metrics"].items():
        out.print(Text(f"  metric {name}: {value:g}"))
    cut = "  (a limit ended it)" if shown["truncated"] else ""
    out.print(Text(f"total reward {shown['total']:g} in {shown['duration_s']:.2f} s{cut}", style="bold"))


def _short(value: Any, most: int = MOST_SHOWN) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"
