"""`ludus run --json` prints JSON whatever the metrics are."""

import json

import pytest

from ludus.cli.progress import JsonLines
from ludus.runs.driver import Status


def test_numbers_that_are_not_finite_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = {"train/loss": float("nan"), "train/grad_norm": float("inf"), "train/entropy": 0.5}
    JsonLines().show(Status(stage="done", run="x", run_dir="runs/x", total_steps=1, metrics=metrics))
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown["metrics"] == {"train/loss": None, "train/grad_norm": None, "train/entropy": 0.5}
    assert shown["stage"] == "done"
