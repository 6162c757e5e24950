"""Whatever becomes rows that are learnt from besides rollouts: files, other runs, games of bots."""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.ingest.gathering import check_unchanged, gather
    from ludus.ingest.warm_start import warm_up

__all__ = ["check_unchanged", "gather", "warm_up"]

__getattr__ = import_later(__name__)
