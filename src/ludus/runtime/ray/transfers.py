"""Which files of a run left the loop's disk for which nodes: shown as metrics.

Invariant: however many versions a run has, only the newest few are remembered.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from ludus.runtime.ray.messages import Sent

MOST_FOLDERS = 16
VERSIONS = "policies/"
"""How the names of versions' folders begin."""


class Transfers:
    """Told of each file that begins its way to a node. A folder is one version, for those below `policies/`."""

    def __init__(self) -> None:
        self._folders: OrderedDict[str, Counter[tuple[str, str]]] = OrderedDict()
        self.files = 0
        self.repeated = 0
        """Files that a node had been sent before."""

    def add(self, sent: Sent) -> None:
        """A file begins its way."""
        self.files += 1
        folder, _, file = sent.name.rpartition("/")
        if not folder.startswith(VERSIONS):
            return
        known = self._folders.setdefault(folder, Counter())
        known[file, sent.node] += 1
        self.repeated += known[file, sent.node] > 1
        while len(self._folders) > MOST_FOLDERS:
            self._folders.popitem(last=False)

    def of(self, folder: str) -> int:
        """How often a version left for nodes: once for each node, if all is well."""
        by_node: Counter[str] = Counter()
        for (_, node), count in self._folders.get(folder, Counter()).items():
            by_node[node] = max(by_node[node], count)
        return by_node.total()

    def metrics(self) -> dict[str, float]:
        """By their names; of versions the last but one, since the newest may be on its way yet."""
        if not self.files:
            return {}
        folders = list(self._folders)
        whole = {"runtime/transfers_per_version": float(self.of(folders[-2]))} if len(folders) > 1 else {}
        return {**whole, "runtime/files_sent": float(self.files), "runtime/files_sent_again": float(self.repeated)}
