"""Hints to install: a package whose compiled part was not built is missing, whatever sources are on the path."""

import subprocess
import sys
from pathlib import Path

import pytest

from ludus.extras import _EXTRAS, is_installed, missing_packages

SENTENCE = "ludus chess needs ludus-chess; install with: pip install 'ludus-rl[chess]'"
SOURCES = Path(__file__).parents[1] / "native" / "chess" / "python" / "ludus_chess"


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """The sources of the native package without its compiled module, as a fresh clone has them."""
    package = tmp_path / "ludus_chess"
    package.mkdir()
    for source in SOURCES.glob("*.py"):
        (package / source.name).write_text(source.read_text())
    return tmp_path


def test_what_is_not_built_is_missing(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(unbuilt))
    monkeypatch.delitem(sys.modules, "ludus_chess", raising=False)
    assert not is_installed("ludus_chess")
    assert missing_packages("ludus chess", "ludus_chess") == SENTENCE


def test_packages_that_are_there_are_not_missing() -> None:
    assert is_installed("typer")
    assert not is_installed("no_such_package_anywhere")


@pytest.mark.parametrize("words", [("chess", "chunks", "stats", "x"), ("chess", "uci", "x.pb.gz")])
def test_commands_say_it_in_one_sentence(unbuilt: Path, words: tuple[str, ...]) -> None:
    code = f"import sys; sys.path.insert(0, {str(unbuilt)!r}); from ludus.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (2, f"ludus: {SENTENCE}")


@pytest.fixture(scope="module")
def no_extras(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed here, without the packages that extras bring."""
    folder = tmp_path_factory.mktemp("no_extras")
    absent = {name for names in _EXTRAS.values() for name in names}
    for installed in Path(pytest.__file__).parents[1].iterdir():
        if installed.name.split(".")[0] not in absent:
            (folder / installed.name).symlink_to(installed)
    return folder


@pytest.mark.parametrize(("example", "extra"), [("connect_four.yaml", "games"), ("llm/tictactoe.yaml", "llm")])
def test_check_without_any_extra_names_the_one_to_install(no_extras: Path, example: str, extra: str) -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "ludus.cli.app", "check", str(root / "examples" / example)],
        env={"PYTHONPATH": f"{root / 'src'}:{no_extras}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert f"pip install 'ludus-rl[{extra}]'" in done.stderr
