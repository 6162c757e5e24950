"""F2: power is lost at every point of every operation, with every subset of what was not yet synced lost.

The model: the contents of a file are durable when the file was synced; a name (made, renamed, removed) is durable when
its directory was synced. At a power loss each pending change of a name is kept or lost on its own, and a file that was
not synced has all, half or none of its bytes. That is harsher than any real file system.
Covered: checkpoints, segments, trimming, publication of policies, single files.
Not covered: the inside of SQLite; its transactions are taken to be whole or absent, in both variants.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from ludus.storage.atomic import publish_directory, stage_pieces, sweep_leftovers, temporary_name, write_bytes
from ludus.storage.catalog import Catalog
from ludus.storage.checkpoints import CheckpointStore
from ludus.storage.filesystem import FileSystem, Piece
from ludus.storage.segments import SegmentLog
from ludus.storage.tensors import load_tensors, save_tensors

MOST_SUBSETS = 64


@dataclass
class Node:
    """A file (`content`, `synced`) or a directory (`names`)."""

    content: bytes = b""
    synced: bool = True
    names: dict[str, Node] | None = None


@dataclass
class Change:
    """Names that change together: `(directory, name, what it then is, or None)`."""

    parts: list[tuple[Node, str, Node | None]]


@dataclass
class Disk:
    """What is durable, and which changes of names are pending, in order."""

    root: Node
    pending: list[Change] = field(default_factory=list)


class Recorder(FileSystem):
    """Works on a real directory and keeps beside it a model of what a power loss would leave."""

    def __init__(self, root: Path, observe: Callable[[Recorder], None]) -> None:
        self.root = root
        self.seen = _load(root)
        self.disk = Disk(_load(root))
        self._twins = {id(self.seen): self.disk.root}
        _pair(self.seen, self.disk.root, self._twins)
        self._observe = observe
        self._alive: list[Node] = []  # nodes are told apart by their id, so none may be freed

    def write_file(self, path: Path, pieces: Sequence[Piece]) -> None:
        super().write_file(path, pieces)
        node = Node(content=b"".join(bytes(piece) for piece in pieces), synced=False)
        self._change([(path, node)])
        node.synced = True
        self._observe(self)

    def sync_file(self, path: Path) -> None:
        self._lookup(path).synced = True
        self._observe(self)

    def sync_directory(self, path: Path) -> None:
        directory = self._lookup(path)
        kept = []
        for change in self.disk.pending:
            if any(part[0] is directory for part in change.parts):
                _apply(change, self._twins)
            else:
                kept.append(change)
        self.disk.pending = kept
        self._observe(self)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        node = self._lookup(source)
        self._change([(source, None), (target, node)])

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._change([(path, None)])

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        self._change([(path, Node(names={}))])

    def remove_tree(self, path: Path) -> None:
        super().remove_tree(path)
        self._change([(path, None)])

    def _change(self, parts: list[tuple[Path, Node | None]]) -> None:
        resolved = [(self._lookup(path.parent), path.name, node) for path, node in parts]
        for directory, name, node in resolved:
            assert directory.names is not None
            self._alive += [removed] if (removed := directory.names.pop(name, None)) else []
            if node is not None:
                directory.names[name] = node
        self.disk.pending.append(Change(resolved))
        self._observe(self)

    def _lookup(self, path: Path) -> Node:
        node = self.seen
        for part in path.relative_to(self.root).parts:
            assert node.names is not None
            node = node.names[part]
        return node

    def outcomes(self) -> Iterator[Node]:
        """Every tree that a power loss now could leave (a random sample when there are very many)."""
        choices = list(itertools.product([True, False], repeat=len(self.disk.pending)))
        if len(choices) > MOST_SUBSETS:
            choices = random.Random(0).sample(choices, MOST_SUBSETS)
        for keep in choices:
            twins = {id(self.seen): _copy(self.disk.root)}
            _pair_durable(self.disk.root, twins[id(self.seen)], self._twins, twins)
            for change, kept in zip(self.disk.pending, keep, strict=True):
                if kept:
                    _apply(change, twins)
            for share in (0.0, 0.5, 1.0):
                yield _torn(twins[id(self.seen)], share)


def _apply(change: Change, twins: dict[int, Node]) -> None:
    for directory, name, node in change.parts:
        twin = twins.setdefault(id(directory), Node(names={}))
        assert twin.names is not None
        twin.names.pop(name, None)
        if node is not None:
            # A file is shared with the live tree, so that syncing it later counts; a directory has a durable twin.
            twin.names[name] = node if node.names is None else twins.setdefault(id(node), Node(names={}))


def _load(path: Path) -> Node:
    if path.is_file():
        return Node(content=path.read_bytes())
    return Node(names={child.name: _load(child) for child in path.iterdir()})


def _pair(live: Node, durable: Node, twins: dict[int, Node]) -> None:
    for name, child in (live.names or {}).items():
        assert durable.names is not None
        if child.names is None:
            durable.names[name] = child
        else:
            twins[id(child)] = durable.names[name]
            _pair(child, durable.names[name], twins)


def _pair_durable(old: Node, new: Node, twins: dict[int, Node], renewed: dict[int, Node]) -> None:
    """Let every live directory whose durable twin is in `old` have its copy in `new` as twin."""
    copies = {id(old): new}

    def walk(left: Node, right: Node) -> None:
        copies[id(left)] = right
        for name, child in (left.names or {}).items():
            if child.names is not None:
                assert right.names is not None
                walk(child, right.names[name])

    walk(old, new)
    for live, durable in twins.items():
        renewed[live] = copies.get(id(durable)) or _copy(durable)


def _copy(node: Node) -> Node:
    if node.names is None:
        return node
    return Node(names={name: _copy(child) for name, child in node.names.items()})


def _torn(node: Node, share: float) -> Node:
    if node.names is None:
        return node if node.synced else Node(content=node.content[: int(len(node.content) * share)])
    return Node(names={name: _torn(child, share) for name, child in node.names.items()})


def _store(node: Node, path: Path) -> None:
    if node.names is None:
        path.write_bytes(node.content)
        return
    path.mkdir()
    for name, child in node.names.items():
        _store(child, path / name)


def _key(node: Node) -> object:
    if node.names is None:
        return node.content
    return tuple(sorted((name, _key(child)) for name, child in node.names.items()))


def power_losses(root: Path, operate: Callable[[Recorder], object]) -> tuple[list[Node], list[Node]]:
    """Run an operation; give every distinct tree that a power loss during it, and after it, could leave."""
    found: dict[object, Node] = {}

    def observe(recorder: Recorder) -> None:
        for tree in recorder.outcomes():
            found.setdefault(_key(tree), tree)

    recorder = Recorder(root, observe)
    observe(recorder)
    operate(recorder)
    return list(found.values()), list(recorder.outcomes())


def signatures(tmp_path: Path, trees: Sequence[Node], sign: Callable[[Path], object]) -> list[object]:
    """What opening each of these trees shows."""
    results = []
    for number, tree in enumerate(trees):
        home = tmp_path / f"after-{number}"
        _store(tree, home)
        results.append(sign(home))
        shutil.rmtree(home)
    return results


def save(store: CheckpointStore, update: int, fs: FileSystem) -> None:
    staging = store.stage(update)
    save_tensors(staging / "weights.safetensors", {"w": np.full(3, update, np.float32)}, fs=fs)
    store.commit(staging, update, {"cursor": update})


def test_model_itself_finds_a_file_that_was_replaced_without_care(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a").write_bytes(b"old")

    def careless(fs: Recorder) -> None:
        fs.unlink(tmp_path / "run" / "a")
        fs.write_file(tmp_path / "run" / "a", [b"new!"])

    trees, _ = power_losses(tmp_path / "run", careless)
    seen = {path.read_bytes() if path.exists() else None for path in _stored(tmp_path, trees, "a")}
    assert seen == {b"old", None, b"", b"ne", b"new!"}


def _stored(tmp_path: Path, trees: Sequence[Node], name: str) -> Iterator[Path]:
    for number, tree in enumerate(trees):
        _store(tree, tmp_path / f"case-{number}")
        yield tmp_path / f"case-{number}" / name


def test_single_file_is_old_or_new(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a").write_bytes(b"old")
    during, after = power_losses(tmp_path / "run", lambda fs: write_bytes(tmp_path / "run" / "a", b"new!", fs=fs))
    assert {path.read_bytes() for path in _stored(tmp_path, during, "a")} == {b"old", b"new!"}
    assert {path.read_bytes() for path in _stored(tmp_path / "run", after, "a")} == {b"new!"}


def test_checkpoint_is_the_one_before_or_the_new_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    store = CheckpointStore(run / "checkpoints", keep=2)
    for update in (1, 2):
        save(store, update, FileSystem())

    def operate(fs: Recorder) -> None:
        save(CheckpointStore(run / "checkpoints", keep=2, fs=fs), 3, fs)

    def sign(home: Path) -> object:
        found = CheckpointStore(home / "checkpoints", keep=2).latest(strict=True)
        assert found is not None
        return found.update, found.state, found.tensors("weights")["w"].tolist()

    old, new = (str((update, {"cursor": update}, [float(update)] * 3)) for update in (2, 3))
    during, after = power_losses(run, operate)
    assert len(during) > 10
    assert {str(signature) for signature in signatures(tmp_path, during, sign)} == {old, new}
    assert {str(signature) for signature in signatures(tmp_path, after, sign)} == {new}


def test_first_checkpoint_is_there_or_not(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()

    def operate(fs: Recorder) -> None:
        save(CheckpointStore(run / "checkpoints", keep=2, fs=fs), 0, fs)

    def sign(home: Path) -> object:
        sweep_leftovers(home)
        found = CheckpointStore(home / "checkpoints", keep=2).latest(strict=True)
        return found.update if found else None

    during, after = power_losses(run, operate)
    assert set(signatures(tmp_path, during, sign)) == {None, 0}
    assert set(signatures(tmp_path, after, sign)) == {0}


def test_policy_version_is_whole_or_absent(tmp_path: Path) -> None:
    run = tmp_path / "policies"
    run.mkdir()
    final = Path("main") / "00000001"

    def operate(fs: Recorder) -> None:
        staging = temporary_name(run)
        fs.make_directory(staging)
        save_tensors(staging / "weights.safetensors", {"w": np.arange(3)}, is_staged=True, fs=fs)
        stage_pieces(staging / "policy.json", [b"{}"], fs=fs)
        publish_directory(staging, run / final, is_synced=True, fs=fs)

    def sign(home: Path) -> object:
        if not (home / final).exists():
            return None
        return load_tensors(home / final / "weights.safetensors")["w"].tolist(), (
            home / final / "policy.json"
        ).read_text()

    during, after = power_losses(run, operate)
    assert {str(result) for result in signatures(tmp_path, during, sign)} == {"None", "([0, 1, 2], '{}')"}
    assert {str(result) for result in signatures(tmp_path, after, sign)} == {"([0, 1, 2], '{}')"}


def rows(*tasks: int) -> pa.Table:
    return pa.table(
        {"episode": [str(task) for task in tasks], "task": tasks, "attempt": [0] * len(tasks), "seat": [0] * len(tasks)}
    )


def tasks_in(home: Path, catalog: Path) -> str:
    """What a log shows that is opened on these files and this catalog, and then again."""
    shutil.copy(catalog, home / "catalog.sqlite")
    seen = []
    for _ in range(2):
        with Catalog(home / "catalog.sqlite") as opened:
            log = SegmentLog(home, "experiences", opened)
            assert log.recovery.quarantined == ()
            seen.append(([task for _, table in log.scan() for task in table.column("task").to_pylist()], log.next_seq))
    assert seen[0] == seen[1]
    return str(seen[0])


def prepared_run(tmp_path: Path) -> Path:
    """A run with two segments; its catalog lies beside it, because SQLite is not part of the model."""
    run = tmp_path / "run"
    run.mkdir()
    with Catalog(tmp_path / "catalog.sqlite") as catalog:
        log = SegmentLog(run, "experiences", catalog)
        for task in (0, 1):
            log.append(rows(task))
            log.commit()
    shutil.copy(tmp_path / "catalog.sqlite", tmp_path / "before.sqlite")
    return run


def test_segment_is_in_the_log_whole_or_not_at_all_and_once_acknowledged_always(tmp_path: Path) -> None:
    run = prepared_run(tmp_path)

    def operate(fs: Recorder) -> None:
        with Catalog(tmp_path / "catalog.sqlite") as catalog:
            log = SegmentLog(run, "experiences", catalog, fs=fs)
            log.append(rows(2, 3))
            log.commit()

    during, acknowledged = power_losses(run, operate)
    before, after = "([0, 1], 2)", "([0, 1, 2, 3], 4)"
    assert set(signatures(tmp_path, during, lambda home: tasks_in(home, tmp_path / "before.sqlite"))) == {before, after}
    for catalog in ("before.sqlite", "catalog.sqlite"):  # the catalog's own transaction may be lost: the file is not
        found = signatures(tmp_path, acknowledged, lambda home, name=catalog: tasks_in(home, tmp_path / name))
        assert set(found) == {after}


def test_trimmed_segment_is_gone_for_good_once_the_catalog_says_so(tmp_path: Path) -> None:
    run = prepared_run(tmp_path)

    def operate(fs: Recorder) -> None:
        with Catalog(tmp_path / "catalog.sqlite") as catalog:
            SegmentLog(run, "experiences", catalog, fs=fs).trim(1)

    during, _ = power_losses(run, operate)
    found = signatures(tmp_path, during, lambda home: tasks_in(home, tmp_path / "catalog.sqlite"))
    assert set(found) == {"([1], 2)"}
