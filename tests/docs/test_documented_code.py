"""The documentation is run: every Python block of the recipes and of the first page, and every named command."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludus.cli.app import COMMANDS, GROUPS
from ludus.plugins import Registry

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("reward", "taskset")
"""Recipes that are run by the tests of their rooms."""
RECIPES = sorted(path.stem for path in (ROOT / "docs" / "recipes").glob("*.md") if path.stem not in ELSEWHERE)
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def run_blocks(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "documented"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}[{number}]", "exec"), names)  # noqa: S102 - our own documentation
    return names


@pytest.fixture
def own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a recipe registers is forgotten after its test."""
    for registry in Registry.every:
        monkeypatch.setattr(registry, "added", {})


@pytest.mark.usefixtures("own_registries")
@pytest.mark.parametrize("name", RECIPES)
def test_recipes_run_and_give_a_part_that_conforms(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = run_blocks(ROOT / "docs" / "recipes" / f"{name}.md", monkeypatch, tmp_path)
    if name in CHECKS:
        CHECKS[name](names)
    else:  # the recipe itself checks what it makes
        assert any(registry.added for registry in Registry.every)


def check_player(names: dict[str, Any]) -> None:
    import numpy as np

    from ludus import make_game
    from ludus.explore.players.fixed import make_player

    game = make_game("open_spiel:connect_four")
    assert make_player("centre", game).choose(game.start(0), 0, np.random.default_rng(0)) == 3


def check_opponent(names: dict[str, Any]) -> None:
    from ludus.config import LeagueConfig, OpponentConfig
    from ludus.league import Pool, make_sampler
    from ludus.records import PolicyName, PolicyRef, PolicyVersion

    refs = [PolicyRef(name=PolicyName("main"), version=PolicyVersion(n)) for n in range(3)]
    pool = Pool(LeagueConfig(), refs[0])
    for ref in refs:
        pool.add_snapshot(ref, 0)
    pool.set_learner(refs[2])
    weighed = make_sampler(OpponentConfig(kind="custom", name="veterans")).weigh(pool)
    assert [ref for ref, _ in weighed] == refs[:2]


def check_transform(names: dict[str, Any]) -> None:
    from ludus.testing import check_transform

    check_transform("final", names["ShortGamesFirst"])


def check_operator(names: dict[str, Any]) -> None:
    from ludus.config import ExperienceConfig
    from ludus.experience import build_filters
    from ludus.testing.experiences import sample_experiences

    custom = {"kind": "custom", "name": "no_rambling", "options": {"times": 2.0}}
    sieve = build_filters(ExperienceConfig.model_validate({"operators": [custom]}))
    rows = sample_experiences((2, 3, 9), rewards=(1.0, 0.0, 1.0))
    rows = rows.replace(sequences={"group": rows.sequences["group"] + "g"})
    assert [refusal.reason for refusal in sieve.apply(rows).refusals] == ["rambling"]


def check_workflow(names: dict[str, Any]) -> None:
    from ludus.workflows.agents.agent import AGENTS
    from ludus.workflows.environments import ENVIRONMENTS
    from ludus.workflows.protocol import WORKFLOWS
    from ludus.workflows.tools.tool import TOOLS

    assert WORKFLOWS.find("doubt") is names["doubt"]
    vault = ENVIRONMENTS.find("vault").make(most=3)
    assert vault.reset({"prompt": "Guess."}, 5) == "Guess. A number from 0 to 3?"
    assert [vault.step(guess).observation for guess in "021"] == ["Higher.", "Lower.", "Open."]
    assert dict(TOOLS.find("weather").parameters)["required"] == ["city"]
    assert AGENTS.find("ask_twice") is names["ask_twice"]


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "player": check_player,
    "opponent": check_opponent,
    "transform": check_transform,
    "operator": check_operator,
    "workflow": check_workflow,
}


@pytest.mark.parametrize("page", [pytest.param("docs/index.md", marks=pytest.mark.slow), "README.md"])
def test_the_first_pages_train_from_python(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = run_blocks(ROOT / page, monkeypatch, tmp_path)
    assert names["status"].stage == "done"
    assert list((tmp_path / "runs").iterdir())


def test_the_page_on_populations_runs_and_names_every_meta_solver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ludus.league.solvers import META_SOLVERS

    page = ROOT / "docs" / "populations.md"
    names = run_blocks(page, monkeypatch, tmp_path)
    assert names["stronger"] == pytest.approx(0.3)
    assert len(names["ratings"].ratings) == 3
    assert set(re.findall(r"^\| `([a-z_]+)` \| (?:any|2, constant sum) ", page.read_text(), re.MULTILINE)) == {
        *META_SOLVERS
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    # A fenced block or inline code that starts with the command, not prose about the project.
    named = set(re.findall(r"(?:^|`)ludus ([a-z]+)\b", page.read_text(), re.MULTILINE))
    assert named <= {*COMMANDS, *GROUPS}, page


def test_every_yaml_block_of_the_documentation_is_a_valid_piece_of_a_config() -> None:
    import yaml

    from ludus.config import build_config

    for page in PAGES:
        for block in blocks(page, "yaml"):
            values = {"name": "documented", "games": ["pgx:connect_four"], **yaml.safe_load(block)}
            build_config(values)


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        assert set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= targets, page


def test_the_page_on_psro_solves_kuhn_poker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = run_blocks(ROOT / "docs" / "psro.md", monkeypatch, tmp_path)
    assert names["psro"].value == pytest.approx(-1 / 18)
    assert names["policy"].policy_for_key("0").sum() == pytest.approx(1.0)


def test_a_run_is_driven_from_python_as_the_page_of_the_daemon_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run_blocks(ROOT / "docs" / "daemon.md", monkeypatch, tmp_path)
    assert Path(capsys.readouterr().out.strip()).is_dir()
