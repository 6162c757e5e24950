"""The pool members that can be talked to: every published version of the run's policy, and its newest by bare name.

Invariant: what is listed is what is published at that moment; a run that is still training shows new versions at once.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from ludus.errors import StorageError
from ludus.http.chat_request import BadRequest
from ludus.policies import PolicyStore
from ludus.records import PolicyRef
from ludus.reports.ladder import LadderRow, standing_of_run
from ludus.storage.catalog import Catalog


class Members:
    """Versions by the names that clients use: `main@12`, or `main` for the newest."""

    def __init__(self, store: PolicyStore, policy: str, *, catalog: Path | None = None) -> None:
        """`catalog` is the run's, where ratings are found; without it, members have none."""
        self._store = store
        self._policy = policy
        self._catalog = catalog

    def find(self, model: str) -> PolicyRef:
        """The version that a client means.

        Raises:
            BadRequest: there is none of that name.
        """
        versions = self._store.versions(self._policy)
        if versions and model == self._policy:
            return versions[-1]
        for ref in versions:
            if str(ref) == model:
                return ref
        known = ", ".join(map(str, [self._policy, *versions[-3:]])) if versions else "none yet"
        raise BadRequest(
            f"there is no model {model!r} here; there are: {known} (GET /v1/models lists all)",
            status=404,
            parameter="model",
            code="model_not_found",
        )

    def cards(self) -> list[dict[str, Any]]:
        """All models, newest first, as the API lists them."""
        versions = self._store.versions(self._policy)[::-1]
        ratings = self._ratings()
        newest = [self._card(self._policy, versions[0], ratings)] if versions else []
        return newest + [self._card(str(ref), ref, ratings) for ref in versions]

    def card(self, model: str) -> dict[str, Any]:
        """One model as the API shows it; raises as `find` does."""
        return self._card(model, self.find(model), self._ratings())

    def _card(self, name: str, ref: PolicyRef, ratings: dict[str, LadderRow]) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):  # pruned since it was listed
            created = int(self._store.path(ref).stat().st_mtime)
            card = {"id": name, "object": "model", "created": created, "owned_by": "ludus"}
            row = ratings.get(str(ref)) or (ratings.get(ref.name) if name == self._policy else None)
            rating = _rating(row) if row else None
            return {**card, "ludus": {"version": ref.version, "rating": rating}}
        return {"id": name, "object": "model", "created": 0, "owned_by": "ludus"}

    def _ratings(self) -> dict[str, LadderRow]:
        if self._catalog is None:
            return {}
        with contextlib.suppress(StorageError), Catalog.open_readonly(self._catalog) as catalog:
            return {row.policy: row for row in standing_of_run(catalog).rows}
        return {}


def _rating(row: LadderRow) -> dict[str, Any]:
    """Elo from the fit of all games, and TrueSkill."""
    return {name: getattr(row, name) for name in ("elo", "elo_error", "mu", "sigma", "games")}
