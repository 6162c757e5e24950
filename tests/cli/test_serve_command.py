"""`ludus serve` as a process of its own: what it prints, what it answers, how it stops, and bad input."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest

from ludus.cli.serve import serve
from ludus.config import load_config
from ludus.errors import ConfigError
from ludus.http.routes import TOKEN_VARIABLE
from ludus.lm.adapters import init_adapter
from ludus.lm.language_models import load_language_model
from ludus.lm.language_shape import LanguageModelShape
from ludus.lm.tiny_model import make_tiny_model
from ludus.policies import PolicyStore
from ludus.records import PolicyName, PolicyRef
from ludus.storage.run_directory import RunDirectory

TOKEN = "a-token-of-some-length"  # noqa: S105


@pytest.fixture(scope="module")
def talking_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    model = make_tiny_model(folder / "model", layers=1, width=32, heads=2, kv_heads=1, context=128)
    directory = RunDirectory(folder / "run")
    directory.create(
        f"name: t\ngames: ['open_spiel:tic_tac_toe']\npolicy: {{model: {{path: {model}, lora: {{rank: 2}}}}}}\n"
    )
    config = load_config(directory.config).policy.model
    assert config is not None
    assert config.lora is not None
    weights = init_adapter(load_language_model(config, threads=1).model, config.lora, seed=0)
    shape = LanguageModelShape(model=config, critic=False, games=("open_spiel:tic_tac_toe",))
    PolicyStore(directory.policies).publish(PolicyRef(name=PolicyName("main")), weights, shape, step=0)
    return directory.path


@contextmanager
def serving(run: Path, *options: str, token: str = "") -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, where it answers, and what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ludus.cli.app", "serve", str(run), "--port", "0", "--threads", "1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, TOKEN_VARIABLE: token},
    )
    try:
        assert process.stdout is not None
        printed = process.stdout.readline() + process.stdout.readline()
        found = re.search(r"http://\S+", printed)
        assert found, printed + process.communicate(timeout=60)[1]
        yield process, found[0], printed
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_it_says_what_it_serves_asks_for_the_token_answers_and_stops_when_interrupted(talking_run: Path) -> None:
    with serving(talking_run, "--host", "0.0.0.0", token=TOKEN) as (process, url, printed):  # noqa: S104
        assert f"serving main from {talking_run}; versions: 1, main@0 to main@0" in printed
        assert "with a token" in printed
        reachable = url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        stranger = openai.OpenAI(base_url=reachable, api_key="wrong-token-of-some", max_retries=0)
        with stranger, pytest.raises(openai.AuthenticationError):
            stranger.models.list()
        with openai.OpenAI(base_url=reachable, api_key=TOKEN, max_retries=0) as client:
            done = client.chat.completions.create(
                model="main", messages=[{"role": "user", "content": "hi"}], max_tokens=4, temperature=0
            )
        assert done.usage is not None
        assert 1 <= done.usage.completion_tokens <= 4
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert TOKEN not in printed + err


def test_others_than_this_machine_need_a_token(talking_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=f"--host 0.0.0.0: .*set {TOKEN_VARIABLE}"):
        serve(talking_run, host="0.0.0.0", port=0)  # noqa: S104


def test_a_run_of_a_network_is_not_served(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "board")
    directory.create("name: board\ngames: [pgx:tic_tac_toe]\n")
    with pytest.raises(ConfigError, match="trains a network, not a language model; play against it with: ludus play"):
        serve(directory.path, port=0)


def test_a_run_without_a_policy_is_not_served(talking_run: Path, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "young")
    directory.create((talking_run / "config.yaml").read_text())
    with pytest.raises(ConfigError, match="has published no policy yet"):
        serve(directory.path, port=0)


def test_what_is_not_a_run_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        serve(tmp_path, port=0)
