"""Runs of a language model against models behind endpoints: a league, a judge, a served run, and endpoints in trouble."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))

from scripted_endpoint import ScriptedServer, says, scripted, unused_port

from ludus.cli.app import app
from ludus.config import load_config, parse_config
from ludus.errors import ConfigError, RolloutError
from ludus.lm.tiny_model import make_tiny_model
from ludus.runs import SingleRun
from ludus.storage.jsonl import read_jsonl
from ludus.storage.run_directory import RunDirectory
from ludus.storage.segment_reader import SegmentReader

KEY = "sk-a-key-that-nobody-may-see-0123"
CONFIG = """
name: guests
games: [open_spiel:tic_tac_toe]
policy: {model: {path: MODEL, lora: {rank: 4}}}
explore:
  games_in_flight: 4
  prompt: {action: choice}
  sampling: {max_tokens: 4}
  endpoints:
    gpt: {model: big, url: 'URL', key_variable: GUEST_KEY, retries: 0, prompt_price: 1.0, completion_price: 2.0}
    critic: {model: critic, url: 'URL', retries: 0, prompt_price: 3.0}
  judge: {endpoint: critic, rubric: Is it brief?, weight: 0.5, highest: 4}
train: {steps: 30, batch_episodes: 4, minibatch: 4, algorithm: {preset: reinforce}}
league: {opponents: [{kind: fixed, players: [gpt]}]}
evaluate: {against: [gpt], games: 2, final_games: 2, pool_opponents: 0}
telemetry: {tensorboard: false, every_s: 0}
"""


def answer(body: dict[str, Any]) -> Response:
    """A judge that says 3 of 4, and a player who takes the first legal move."""
    text = body["messages"][-1]["content"]
    said = "score: 3" if body["model"] == "critic" else text.rpartition("Moves: ")[2].split()[0].rstrip(",")
    reply = says(said)(body)
    assert isinstance(reply, Response)
    return reply


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", layers=1, width=16, heads=2, kv_heads=1)


@pytest.fixture(scope="module")
def played(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ScriptedServer]]:
    """A run against a player and with a judge, and the server that was both."""
    run = tmp_path_factory.mktemp("guests") / "run"
    with pytest.MonkeyPatch.context() as patch, scripted(answer) as server:
        patch.setenv("GUEST_KEY", KEY)
        status = SingleRun(parse_config(filled(model, server.url), "guests.yaml"), run).run_to_end()
        assert status.stage == "done", status.error
        yield run, server


def filled(model: Path, url: str, config: str = CONFIG) -> str:
    return config.replace("MODEL", str(model)).replace("URL", url)


def newest_metrics(run: Path) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in read_jsonl(run / "metrics.jsonl"):
        values.update(line)
    return values


def rows_of(run: Path, kind: str) -> list[dict[str, Any]]:
    reader = SegmentReader(run / kind)
    return [row for start in reader.starts() for row in reader.segment(start)[1].to_pylist()]


# -- players and judges ------------------------------------------------------------------------------------------------


def test_its_metrics_are_explained_and_those_that_are_promised_are_there(
    played: tuple[Path, ScriptedServer], check_promises: Any
) -> None:
    check_promises("endpoints", played[0])


def test_only_the_policy_is_learnt_from_and_the_verdict_is_in_its_reward(played: tuple[Path, ScriptedServer]) -> None:
    run, _ = played
    results = {row["id"]: row for row in rows_of(run, "episodes") if row["purpose"] == "train"}
    rows = rows_of(run, "experiences")
    assert rows
    assert not any(row["error"] for row in results.values())
    assert all(set(row["policies"]) == {"main", "gpt"} for row in results.values())
    for row in rows:
        result = results[row["episode"]]["returns"][row["seat"]]
        assert row["policy"] == "main"
        assert row["final_reward"] == result
        assert sum(row["reward"]) == pytest.approx(result + 0.5 * 3)


def test_costs_and_verdicts_are_metrics_and_the_bill_is_the_last_word(played: tuple[Path, ScriptedServer]) -> None:
    run, server = played
    metrics = newest_metrics(run)
    assert metrics["explore/endpoints/gpt/requests"] > 0
    assert metrics["explore/endpoints/gpt/cost"] > 0
    assert metrics["explore/judge/score"] == 3.0
    assert 0.0 <= metrics["evaluate/gpt/score"] <= 1.0
    (bill,) = [event for event in read_jsonl(run / "events.jsonl") if event["event"] == "endpoints"]
    asked = sum(body["model"] == "big" for body in server.bodies)
    assert bill["explore/endpoints/gpt/requests"] == asked
    assert bill["explore/endpoints/gpt/cost"] == pytest.approx(asked * (11 + 2 * 7) / 1e6)
    assert bill["explore/endpoints/critic/requests"] == bill["explore/judge/verdicts"]


def test_the_key_goes_to_its_endpoint_and_nowhere_else(played: tuple[Path, ScriptedServer]) -> None:
    run, server = played
    for _, headers, body in server.seen:
        assert headers.get("authorization") == (f"Bearer {KEY}" if body["model"] == "big" else None)
    files = [file for file in run.rglob("*") if file.is_file()]
    assert len(files) > 10
    assert not [file for file in files if KEY.encode() in file.read_bytes()]


def test_requests_are_not_logged_one_by_one(played: tuple[Path, ScriptedServer]) -> None:
    run, _ = played
    logs = "".join(file.read_text() for file in run.rglob("explorer-*.log"))
    assert "chat/completions" not in logs


@pytest.mark.slow
def test_a_served_run_is_an_opponent_of_another(
    played: tuple[Path, ScriptedServer], model: Path, tmp_path: Path
) -> None:
    from ludus.http.server import serving
    from ludus.serve.app import make_app, open_service

    directory = RunDirectory(played[0])
    text = """
name: heirs
games: [open_spiel:tic_tac_toe]
policy: {model: {path: MODEL, lora: {rank: 4}}}
explore:
  games_in_flight: 4
  sampling: {max_tokens: 4}
  endpoints: {elder: {model: main@0, url: 'URL'}}
train: {steps: 10, batch_episodes: 4, minibatch: 4, algorithm: {preset: reinforce}}
league: {opponents: [{kind: fixed, players: [elder]}]}
evaluate: {against: [elder], games: 0, final_games: 4, pool_opponents: 0}
telemetry: {tensorboard: false, every_s: 0}
"""
    service = open_service(directory, load_config(directory.config), threads=1)
    with serving(make_app(service)) as url:
        status = SingleRun(parse_config(filled(model, url, text), "heirs.yaml"), tmp_path / "run").run_to_end()
    assert status.stage == "done", status.error
    metrics = newest_metrics(tmp_path / "run")
    assert 0.0 <= metrics["evaluate/elder/score"] <= 1.0
    assert not any(row["error"] for row in rows_of(tmp_path / "run", "episodes"))
    assert service.engine.counters.completed > 0


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_run_with_dead_endpoints_ends_with_a_sentence_that_names_them_and_goes_on_when_they_live(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_KEY", KEY)
    url = f"http://127.0.0.1:{unused_port()}/v1"
    with pytest.raises(RolloutError) as failed:
        SingleRun(parse_config(filled(model, url), "guests.yaml"), tmp_path / "run").run_to_end()
    assert "none of the 4 episodes of update 1 can be trained on" in str(failed.value)
    assert f"PolicyError: {url} cannot be reached" in str(failed.value)
    errors = [row["error"] for row in rows_of(tmp_path / "run", "episodes") if row["purpose"] == "train"]
    assert len(errors) == 4
    assert all("is it running?" in error for error in errors)
    with scripted(answer) as server:
        config = parse_config(filled(model, server.url), "guests.yaml")
        assert SingleRun(config, tmp_path / "run").run_to_end().stage == "done"


@pytest.mark.slow
def test_money_that_is_spent_stays_spent_when_the_run_goes_on(
    played: tuple[Path, ScriptedServer], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_KEY", KEY)
    shutil.copytree(played[0], tmp_path / "run", symlinks=True)
    spent = newest_metrics(tmp_path / "run")["explore/endpoints/critic/cost"]
    changes = ["train.steps=5000", f"explore.endpoints.critic.max_cost={spent!r}"]
    with scripted(answer) as server:
        config = parse_config(filled(model, server.url), "guests.yaml", changes)
        with pytest.raises(RolloutError, match=f"critic has cost .* and max_cost is {spent:g}"):
            SingleRun(config, tmp_path / "run").run_to_end()
        assert not [body for body in server.bodies if body["model"] == "critic"]


def test_a_missing_key_is_one_sentence_before_anything_is_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GUEST_KEY", raising=False)
    file = tmp_path / "guests.yaml"
    file.write_text(filled(model, "https://example.com/v1"))
    sentence = (
        "explore.endpoints.gpt: endpoint https://example.com/v1: the environment variable GUEST_KEY, "
        "which is to have its key, is not set"
    )
    with pytest.raises(ConfigError) as refused:
        SingleRun(load_config(file), tmp_path / "run")
    assert refused.value.problems == (sentence,)
    assert not (tmp_path / "run").exists()
    found = CliRunner().invoke(app, ["check", str(file)])
    assert (found.exit_code, found.stderr) == (2, f"{sentence}\n")


def test_check_tells_of_endpoints_but_not_of_their_keys(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_KEY", KEY)
    file = tmp_path / "guests.yaml"
    file.write_text(filled(model, "https://example.com/v1"))
    found = CliRunner().invoke(app, ["-v", "check", str(file)])
    assert found.exit_code == 0
    assert "big at https://example.com/v1, key from GUEST_KEY" in found.stdout
    assert KEY not in found.output
    assert all(not logging.getLogger(name).isEnabledFor(logging.INFO) for name in ("httpx", "httpx2", "openai"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("prompt=pompt", "explore.endpoints.gpt: prompt template 'pompt': no such prompt template"),
        ("action=boxd", "explore.endpoints.gpt: action 'boxd': no such way to find a move"),
        ("url=http://me:secret@h/v1", "explore.endpoints.gpt: endpoint at h: a URL may not carry a password"),
    ],
)
def test_what_an_endpoint_names_is_looked_up(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, problem: str
) -> None:
    monkeypatch.setenv("GUEST_KEY", KEY)
    text = filled(model, "https://h/v1")
    with pytest.raises(ConfigError) as refused:
        SingleRun(parse_config(text, "guests.yaml", [f"explore.endpoints.gpt.{change}"]), tmp_path / "run")
    assert refused.value.problems[0].startswith(problem)
    assert "secret" not in str(refused.value)
