"""Whatever becomes rows that are learnt from besides rollouts: files, other runs, games of bots."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ludus.ingest.bot_games import BotGames
    from ludus.ingest.gathering import check_unchanged, gather
    from ludus.ingest.row_files import RowFile
    from ludus.ingest.run_rows import RunRows
    from ludus.ingest.warm_start import warm_up

__all__ = ["BotGames", "RowFile", "RunRows", "check_unchanged", "gather", "warm_up"]

_HOMES = {
    "BotGames": "bot_games",
    "RowFile": "row_files",
    "RunRows": "run_rows",
    "check_unchanged": "gathering",
    "gather": "gathering",
    "warm_up": "warm_start",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
