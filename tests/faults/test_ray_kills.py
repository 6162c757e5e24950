"""Twenty kills of workers and nodes that have networks and disks of their own cost time, and nothing else."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from killing import EXPLORER, RANK, TRAINER, check_nothing_is_doubled, describe, finish, start, wait_until
from networks import Network, why_not
from ray_kills import LEARNER, NODE, account, kill_at_random, read_events
from ray_network_runs import CHECKOUT_RUNS, QUICK, config_text, start_on, where
from test_learned_population_kills import LEAGUE, assignments, described

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

ORPHANS_S, END_S = 30.0, 900.0

LANGUAGE_MODEL = """
name: words
games: [open_spiel:tic_tac_toe]
policy: {model: {path: ludus/mini, lora: {rank: 4}}}
explore: {games_in_flight: 8, workers: 2, prompt: {template: bare, invalid_moves: 1}, sampling: {max_tokens: 4}}
experience: {final: [{kind: role_advantage}]}
train: {steps: 1200, batch_episodes: 8, minibatch: 8, algorithm: {preset: ppo}}
telemetry: {tensorboard: false, every_s: 0}
"""
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "split": (config_text(9000), (EXPLORER,) * 8 + (TRAINER,) * 7 + (NODE,) * 5),
    "language model": (LANGUAGE_MODEL, (EXPLORER,) * 8 + (TRAINER,) * 7 + (NODE,) * 5),
    "two trainers": (
        config_text(9000).replace("train: {", "train: {trainers: 2, "),
        (EXPLORER,) * 5 + (TRAINER,) * 5 + (RANK,) * 5 + (NODE,) * 5,
    ),
    "population": (
        LEAGUE.replace("nash_conv: null", "generations: 4, nash_conv: null"),
        (LEARNER,) * 10 + (EXPLORER,) * 5 + (NODE,) * 5,
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs here, which no node sees."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def network(runs: Path) -> Iterator[Network]:
    """Four nodes of two cores each."""
    with Network(4, masked=[runs, CHECKOUT_RUNS], settings=QUICK) as made:
        yield made


def check_updates_are_in_order(run: Path) -> None:
    """Versions of each policy were published one after the other."""
    for path in sorted(run.rglob("events.jsonl")):
        versions = [str(event["policy"]) for event in read_events(path.parent) if event["event"] == "published"]
        by_name: dict[str, list[int]] = {}
        for name, _, number in (version.partition("@") for version in versions):
            by_name.setdefault(name, []).append(int(number))
        assert all(numbers == sorted(set(numbers)) for numbers in by_name.values())


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_kills_of_workers_and_nodes_change_nothing(
    network: Network, runs: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, whom = KINDS[kind]
    folder = runs / kind.replace(" ", "_")
    shuffled = random.Random(7).sample(whom, len(whom))
    process = start_on(network, folder, text)

    kills = kill_at_random(network, process, folder / "run", shuffled, seed=11)
    code, said = finish(process, END_S)

    assert code == 0, said
    with capsys.disabled():
        print(f"\n{kind}: {account(folder / 'run', kills)}")
    assert wait_until(lambda: not any(where(network, module) for module in {*whom} - {NODE}), ORPHANS_S)
    whole = _end_here(folder.with_name(f"{folder.name}_local"), text)
    check_updates_are_in_order(folder / "run")
    if kind == "population":
        assert described(folder / "run") == described(whole)
        assert assignments(folder / "run") == assignments(whole)
    else:
        check_nothing_is_doubled(folder / "run")
        assert describe(folder / "run") == describe(whole)
    assert kills.total() == len(whom), "the run ended before the last kills; make it longer"


def _end_here(folder: Path, text: str) -> Path:
    """The same run on this machine, when nobody interferes."""
    folder.mkdir()
    (folder / "run.yaml").write_text(text)
    code, said = finish(start(folder / "run.yaml", folder / "run"))
    assert code == 0, said
    return folder / "run"
