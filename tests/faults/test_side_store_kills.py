"""F5 for the streams beside the on-policy one: a process that claims, trains, commits and checkpoints is killed with
SIGKILL again and again, while people leave imports for it.

Expert rows come in the order of an unbroken run, and every imported row is trained on exactly once. One clean process
forks the children that are killed; the seed is in the command, so a failure can be repeated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ludus.buffer

SCRIPT = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from ludus.buffer import EpochStore, GatheredRows, GatheredWriter, ImportStore, put_into_inbox
from ludus.buffer import waiting_in_inbox
from ludus.buffer.epoch_store import Cursor, draw
from ludus.experience import Pipeline
from ludus.sources.offline import OfflineRows
from ludus.sources.mixed import MixedSource
from ludus.sources.protocol import Batch, BatchSource
from ludus.storage.atomic import read_json, write_json
from ludus.storage.catalog import Catalog
from ludus.testing.experiences import sample_experiences

root, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
CHECKPOINT, EXPERTS, ROWS = root / "checkpoint.json", 17, 5

writer = GatheredWriter(root / "staging", root / "expert")
writer.add(sample_experiences([2] * EXPERTS, tokens=True))
writer.finish({})

class Nothing(BatchSource):
    def next(self):
        return Batch()
    def commit(self, batch):
        pass
    def state(self):
        return {}
    def load_state(self, state):
        pass

def open_stores():
    imports = ImportStore(root, Catalog(root / "catalog.sqlite"))
    rows = GatheredRows(root / "expert")
    expert = EpochStore("expert", [rows, imports.expert], seed=1, fingerprint=rows.fingerprint)
    side = MixedSource(Nothing(), [OfflineRows(expert, ROWS), OfflineRows(imports, 3)], Pipeline(),
                       take_inbox=imports.take_inbox)
    trained = {"expert": [], "on_policy": []}
    if CHECKPOINT.exists():
        saved = read_json(CHECKPOINT)
        side.load_state(saved["side"])
        trained = saved["trained"]
    return side, imports, trained, expert

def work(until):
    side, imports, trained, expert = open_stores()
    while True:
        claim = side.next()
        columns = claim.experiences.sequences
        for source, task in zip(columns["source"].tolist(), columns["task"].tolist()):
            trained[source].append(task)
        side.commit(claim)
        if until(imports) or rng.random() < 0.3:
            write_json(CHECKPOINT, {"side": side.state(), "trained": trained})
        if until(imports):
            return

def leave(number):
    rows = sample_experiences([2] * 2, tasks=[2 * number, 2 * number + 1], tokens=True)
    names = [f"edit-{2 * number}", f"edit-{2 * number + 1}"]
    put_into_inbox(root / "inbox", rows.replace(sequences={
        "source": np.array(["on_policy"] * 2, object), "episode": np.array(names, object)}))

for number in range(kills):
    leave(number)
    child = os.fork()
    if not child:
        rng.seed(f"{seed}/{number}")
        try:
            work(lambda imports: False)
        finally:
            os._exit(1)
    time.sleep(rng.uniform(0.005, 0.12))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "the child failed"
work(lambda imports: not imports.waiting and not waiting_in_inbox(root / "inbox"))

trained = read_json(CHECKPOINT)["trained"]
assert sorted(trained["on_policy"]) == list(range(2 * kills)), trained["on_policy"]
_, _, _, expert = open_stores()
unbroken, _ = draw(Cursor(), len(trained["expert"]), seed=expert._seed, size=EXPERTS)
assert trained["expert"] == unbroken.tolist()
print(len(trained["expert"]), len(trained["on_policy"]))
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_both_streams_go_on_exactly_where_the_checkpoint_left_them(tmp_path: Path, seed: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(ludus.buffer.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), "25", str(seed)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[1] == "50"
