"""`ludus chess init`, `describe`, `convert` and `migrate`, on small networks and on the real one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ludus.chess.lc0_format import read_network
from ludus.chess.network_source import open_network
from ludus.cli.app import app
from ludus.config import load_or_demo
from ludus.errors import ConfigError

MAIA = Path(__file__).parents[2].parent / "shared" / "data" / "maia-1100.pb.gz"
needs_maia = pytest.mark.skipif(not MAIA.is_file(), reason=f"{MAIA} is not there")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ludus(*words: str) -> str:
    done = CliRunner().invoke(app, ["chess", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def small(name: str = "small.yaml", *words: str) -> None:
    ludus("init", name, "--layers", "1", "--width", "8", "--weights", *words)


def test_what_init_writes_is_a_config_with_comments_and_initial_weights() -> None:
    small("small.yaml", "--chunks", "data", "--release", "lc0,onnx", "--new-chunks", "7", "--updates", "3")
    config = load_or_demo(Path("small.yaml"))
    assert config.policy.network.kind == "chess_residual"
    assert config.policy.start == "runs/small_start"
    assert config.cycle is not None
    assert (config.cycle.new_sequences, config.cycle.updates) == (7, 3)
    assert config.cycle.release is not None
    assert [file.format for file in config.cycle.release.files] == ["lc0", "onnx"]
    assert "# watched" in Path("small.yaml").read_text()
    assert open_network("runs/small_start").shape.network == config.policy.network


def test_init_writes_an_attention_body_and_no_weights_unless_asked() -> None:
    ludus("init", "wide.yaml", "--body", "attention", "--layers", "2", "--width", "16", "--release", "none")
    config = load_or_demo(Path("wide.yaml"))
    assert config.policy.network.kind == "chess_attention"
    assert config.cycle is not None
    assert config.cycle.release is None
    assert not Path("runs").exists()


@needs_maia
def test_fine_tuning_begins_with_the_real_network() -> None:
    ludus("init", "fine.yaml", "--from", str(MAIA))
    config, real = load_or_demo(Path("fine.yaml")), read_network(MAIA)
    assert config.policy.network == real.config
    start = open_network(str(config.policy.start))
    assert start.steps == 400_000
    assert all(np.array_equal(start.weights[name], value) for name, value in real.weights.items())


@needs_maia
def test_describe_knows_the_real_network() -> None:
    facts = json.loads(ludus("describe", str(MAIA), "--json"))
    assert facts["body"].startswith("residual tower, 6 blocks x 64 filters, squeeze-excitation of 8")
    assert facts["parameters"] == sum(value.size for value in read_network(MAIA).weights.values())
    assert (facts["training_steps"], facts["encodings"], facts["activations"]) == (400_000, ["LINEAR16"], "relu")
    assert facts["input_format"].startswith("1: classical")
    assert "body.stem.kernel" in ludus("describe", str(MAIA), "--tensors")


@needs_maia
def test_a_real_network_keeps_its_bytes_and_its_weights_through_every_form() -> None:
    for target in ("same.pb.gz", "runs/maia", "full.pb.gz"):
        words = ["--encoding", "FLOAT32"] if target.startswith("full") else []
        ludus("convert", str(MAIA), target, *words)
    assert gzip.decompress(Path("same.pb.gz").read_bytes()) == gzip.decompress(MAIA.read_bytes())
    ludus("convert", "runs/maia", "again.pb.gz", "--encoding", "FLOAT32")
    real = read_network(MAIA).weights
    for name in ("full.pb.gz", "again.pb.gz"):
        found = read_network(Path(name))
        for key, value in real.items():
            np.testing.assert_allclose(found.weights[key], value, rtol=1e-6, atol=1e-7, err_msg=f"{name}: {key}")
    assert "version main@0" in ludus("describe", "runs/maia")


def test_convert_names_the_heads_that_a_format_has_no_place_for() -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    ludus("init", "two.yaml", "--layers", "1", "--width", "8")
    Path("wide.yaml").write_text(
        Path("two.yaml").read_text().replace("        vanilla:\n", SOFT + "        vanilla:\n")
    )
    small()
    ludus("migrate", "runs/small_start", "wide.yaml", "--out", "runs/two")
    facts = json.loads(ludus("describe", "runs/two", "--json"))
    assert facts["not_in_pb_gz"] == ["policy.soft (ONNX and ludus have it)"]
    done = CliRunner().invoke(app, ["chess", "convert", "runs/two", "two.pb.gz"], catch_exceptions=False)
    assert "lc0's format has no place for them: policy.soft" in done.stderr
    ludus("convert", "runs/two", "two.onnx")
    import onnx

    assert "/output/policy/soft" in [each.name for each in onnx.load("two.onnx").graph.output]


SOFT = """        soft:
          kind: convolution
"""


def test_migrate_keeps_what_fits_and_tells_of_the_rest() -> None:
    small()
    changes = ["policy.network.blocks=2", "policy.network.heads.value.winner.inner=16"]
    told = json.loads(ludus("migrate", "runs/small_start", "small.yaml", *changes, "--out", "runs/new", "--json"))
    assert "body.stem.kernel" in told["kept"]
    assert any(line.startswith("body.blocks.1.first.kernel 3x3x8x8") for line in told["fresh"])
    assert "value.winner.trunk.hidden.kernel 2048x128 -> 2048x16" in told["misfits"]
    assert told["dropped"] == []
    old, new = open_network("runs/small_start"), open_network("runs/new")
    assert new.shape.network.blocks == 2  # type: ignore[union-attr]
    for name in told["kept"]:
        np.testing.assert_array_equal(new.weights[name], old.weights[name])
    assert {name.split()[0] for name in (*told["fresh"], *told["misfits"])} | set(told["kept"]) == set(new.weights)


def test_migrate_drops_layers_that_are_gone_and_renames_heads() -> None:
    ludus("init", "old.yaml", "--layers", "2", "--width", "8", "--weights")
    small()
    text = Path("small.yaml").read_text()
    Path("renamed.yaml").write_text(text.replace("vanilla", "mine"))
    words = ["runs/old_start", "renamed.yaml", "--rename", "policy.vanilla=policy.mine"]
    told = ludus("migrate", *words, "--dry-run")
    assert "dropped       body.blocks.1.first.kernel 3x3x8x8" in told
    assert "0 begin afresh" in told
    assert not Path("runs/renamed").exists()
    ludus("migrate", *words, "--out", "runs/renamed")
    kernel = "policy.{}.first.kernel"
    np.testing.assert_array_equal(
        open_network("runs/renamed").weights[kernel.format("mine")],
        open_network("runs/old_start").weights[kernel.format("vanilla")],
    )


def refused(*words: str) -> str:
    with pytest.raises(ConfigError) as caught:
        CliRunner().invoke(app, ["chess", *words], catch_exceptions=False)
    return str(caught.value)


def test_bad_input_is_refused_in_a_sentence() -> None:
    small()
    cases: dict[str, Any] = {
        "small.yaml exists; choose another name, or replace it with --force": ["init", "small.yaml"],
        "x.txt: expected a name that ends in .yaml": ["init", "x.txt"],
        "--release h5: expected lc0, onnx, lc0,onnx or none": ["init", "y.yaml", "--release", "h5"],
        "no.pb.gz: no such file": ["describe", "no.pb.gz"],
        "nothing is neither a run nor a network (.pb.gz)": ["describe", "nothing"],
        "no policy main@9 in runs/small_start; there are: main@0": ["describe", "runs/small_start@9"],
        "runs/small_start exists; remove it, or choose another directory": ["convert", "runs/small_start", "runs/small_start"],
        "--encoding HALF: expected LINEAR16, FLOAT16, BFLOAT16, FLOAT32": [
            "convert", "runs/small_start", "x.pb.gz", "--encoding", "HALF"
        ],
        "--rename a: write OLD=NEW, as policy.vanilla=policy.soft": [
            "migrate", "runs/small_start", "small.yaml", "--rename", "a"
        ],
        "--rename a=b: the old network has nothing called a": [
            "migrate", "runs/small_start", "small.yaml", "--rename", "a=b"
        ],
    }  # fmt: skip
    for sentence, words in cases.items():
        assert refused(*words) == sentence
    Path("damaged.pb.gz").write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(Exception, match=r"damaged\.pb\.gz: truncated or damaged"):
        CliRunner().invoke(app, ["chess", "describe", "damaged.pb.gz"], catch_exceptions=False)
    Path("model.onnx").write_bytes(b"")
    assert "ludus writes ONNX and does not read it" in refused("describe", "model.onnx")
