"""Kinds of run over the one loop: single, staged, population, evaluate, exact PSRO, cycles; how they are driven."""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.runs.driver import CycleStatus, Driveable, Status
    from ludus.runs.single import SingleRun
    from ludus.runs.staged import AnyRun, StagedRun, check_stages, make_run

__all__ = ["AnyRun", "CycleStatus", "Driveable", "SingleRun", "StagedRun", "Status", "check_stages", "make_run"]

__getattr__ = import_later(__name__)
