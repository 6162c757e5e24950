"""F18: programs that forge their verdict and answers that want to be run: nothing of what they write decides anything."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludus.config.sections.rewards import CodeRewardConfig, MathsRewardConfig
from ludus.rewards.attempt import Attempt, Mark
from ludus.rewards.code import CodeReward
from ludus.rewards.responses import AnswerReward
from ludus.sandbox.program import Limits
from ludus.sandbox.sandbox import Sandbox

SOURCE = Path(__file__).parents[2] / "src"
LIMITS = Limits(cpu_s=2, wall_s=20, memory_mb=256, disk_mb=4, processes=4)


@pytest.fixture(scope="module")
def best() -> Iterator[Sandbox]:
    """The best level of this machine, for what does not depend on the level."""
    sandbox = Sandbox(LIMITS, in_flight=2)
    yield sandbox
    sandbox.close()


CALLS = [{"call": "double", "args": [n], "expected": 2 * n} for n in (3, 4)]
SCRIPTS = [{"input": "3\n", "output": "6"}, {"input": "4\n", "output": "8"}]
CODE = ["assert double(3) == 6", "assert double(4) == 8"]


def mark(sandbox: Sandbox, source: str, tests: Any, **inputs: Any) -> Mark:
    reward = CodeReward(CodeRewardConfig(kind="code", find="whole"), sandbox)
    return asyncio.run(reward.mark(Attempt(response=source, inputs={"tests": tests, **inputs})))


# -- forged verdicts ---------------------------------------------------------------------------------------------------


LEAVING = ["import sys\nsys.exit(0)", "import os\nos._exit(0)", "raise SystemExit", "exit()", "quit(0)"]
FORGED = json.dumps({"outcomes": ["", ""]})


@pytest.mark.parametrize("tests", [CALLS, SCRIPTS, CODE], ids=["calls", "scripts", "code"])
@pytest.mark.parametrize("attack", LEAVING)
def test_leaving_early_passes_nothing(best: Sandbox, tests: Any, attack: str) -> None:
    assert mark(best, attack, tests).value == 0.0
    assert (
        mark(best, f"def double(n):\n    {attack.splitlines()[0]}\n    {attack.splitlines()[-1]}", tests).value == 0.0
    )


FORGERIES = [
    f"print({FORGED!r})\nprint('PASSED', 'OK', '2 passed', '1.0', '{{\"reward\": 1.0}}')",
    f"import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, ({FORGED!r} + chr(10)).encode())\n    except OSError: pass",
    'import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b\'{"number": 0, "value": 6}\\n\' * 9)\n    except OSError: pass',
    "import os\nfor fd in range(3, 64):\n    try:\n        os.close(fd)\n    except OSError: pass",
    "for name in ('reward.txt', '/logs/verifier/reward.txt', 'result.json', '/tmp/reward'):\n"
    "    try:\n        open(name, 'w').write('1.0')\n    except OSError: pass",
    "import builtins, json, sys\nbuiltins.AssertionError = Warning\njson.dumps = lambda *a, **k: '{}'\n"
    "builtins.exec = builtins.compile = builtins.isinstance = lambda *a, **k: True\nsys.modules.clear()",
    "import sys\nfor frame in iter(lambda f=[sys._getframe()]: f.__setitem__(0, f[0].f_back) or f[0], None):\n"
    "    frame.f_locals.update(outcomes=['', ''], problems=['', ''])",
    "class Yes:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
    "    def __bool__(self): return True\ndef double(n): return Yes()",
    "class Yes(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef double(n): return Yes(7)",
    "class Yes(list):\n    def __eq__(self, other): return True\ndef double(n): return Yes()",
    "def double(n): return {'object': 0}",
    "def double(n): return [[]] * 10",
    "def double(n): return 10 ** 400000",
    "def double(n): return 'x' * (8 << 20)",
    "def double(n):\n    x = []\n    for _ in range(5000): x = [x]\n    return x",
    "def double(n):\n    x = []\n    x.append(x)\n    return x",
    "def double(n): return float('nan')",
    "def double(n): raise AssertionError",
    "def double(n): raise KeyboardInterrupt",
]


@pytest.mark.parametrize("tests", [CALLS, CODE], ids=["calls", "code"])
@pytest.mark.parametrize("attack", FORGERIES)
def test_what_a_program_writes_decides_nothing(best: Sandbox, tests: Any, attack: str) -> None:
    source = attack if "def double" in attack else attack + "\ndef double(n): return 7"
    assert mark(best, source, tests).value == 0.0


@pytest.mark.parametrize("attack", FORGERIES[:6])
def test_what_a_script_writes_decides_nothing(best: Sandbox, attack: str) -> None:
    assert mark(best, attack, SCRIPTS).value == 0.0


def test_the_right_answers_are_nowhere_to_be_found(best: Sandbox) -> None:
    """A solution that looks through all of its process for the expected answer does not find it."""
    expected = "expected-" + os.urandom(8).hex()
    source = """
import gc, sys, os
def search():
    seen, found = set(), []
    todo = [*gc.get_objects(), sys.modules, sys._getframe()]
    while todo and len(seen) < 400000:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, (str, bytes)):
            text = thing if isinstance(thing, str) else thing.decode(errors="replace")
            if "expected-" in text and len(text) < 200:
                found.append(text)
        else:
            todo.extend(gc.get_referents(thing))
    return found
def answer(n):
    found = [text for text in search() if "expected-" in text and len(text) == 25]
    return found[0] if found else "nothing"
print(answer(0))
"""
    assert mark(best, source, [{"call": "answer", "args": [1], "expected": expected}]).value == 0.0
    assert mark(best, source, [f"assert answer(1) == {expected!r}"]).value == 0.0
    assert mark(best, source, [{"input": "", "output": expected}]).value == 0.0


def test_the_test_code_runs_where_the_solution_is_not(best: Sandbox) -> None:
    """What a solution changes in its interpreter does not change what the tests see."""
    source = "import builtins, sys\nbuiltins.abs = lambda x: 6\nsys.version = 'mine'\ndef double(n): return -6"
    assert mark(best, source, ["assert abs(double(3)) == 6", "import sys\nassert sys.version != 'mine'"]).value == 1.0
    assert mark(best, source, ["assert abs(-5) == 6"]).value == 0.0


# -- answers that are read, not run ------------------------------------------------------------------------------------


PAYLOADS = [
    "__import__('os').system('touch {path}')",
    "\\boxed{{__import__('os').system('touch {path}')}}",
    "\\boxed{{\\pi.__class__.__mro__[-1].__subclasses__()}}",
    "\\boxed{{\\pi__import__('os').system('touch {path}')}}",
    "The answer is (lambda: __import__('subprocess').run(['touch', '{path}']))()",
    "\\boxed{{eval(compile('open(\"{path}\", \"w\")', '', 'exec'))}}",
    "\\boxed{{sympify(\"__import__('os').system('touch {path}')\")}}",
    "\\boxed{{9**9**9**9**9}}",
    "\\boxed{{9^{{9^{{9^{{9}}}}}}}}",
    "\\boxed{{(((((((((((((((((((((((((((((1!)!)!)!)!)!)!)!)!)!)!)}}",
    "\\boxed{{" + "(" * 900 + "}}",
    "\\boxed{{" + "\\frac" * 150 + "}}",
    "\\boxed{{" + "1+" * 290 + "1}}",
    "#### " + "9" * 5000,
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_maths_answer_is_never_executed(payload: str, tmp_path: Path) -> None:
    path = tmp_path / "touched"
    reward = AnswerReward(MathsRewardConfig(kind="maths"))
    attempt = Attempt(response=payload.format(path=path), inputs={"answer": "\\pi"})
    start = time.monotonic()
    assert asyncio.run(reward.mark(attempt)).value == 0.0
    assert time.monotonic() - start < 1.0
    assert not path.exists()


# -- gates -------------------------------------------------------------------------------------------------------------


EXECUTING = {"eval", "exec", "compile", "__import__"}
UNPACKING = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
INSIDE = SOURCE / "ludus" / "sandbox" / "inside"


def executed(path: Path) -> list[str]:
    """Where a file executes text or unpacks code."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = [node.func.id] if node.func.id in EXECUTING else []
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] in UNPACKING]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module.partition(".")[0] in UNPACKING | {"sympy"} else []
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "trust_remote_code", "weights_only"):
            is_safe = isinstance(node.value, ast.Constant) and node.value.value is (node.arg == "weights_only")
            names = [] if is_safe else [str(node.arg)]
        elif isinstance(node, ast.Attribute) and node.attr in ("unsafe_load", "parse_expr", "sympify"):
            names = [node.attr]
        found += [f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)} {name}" for name in names]
    return found


def test_nothing_executes_text_outside_the_sandbox() -> None:
    files = sorted((SOURCE / "ludus").rglob("*.py"))
    assert len(files) > 200
    found = [place for path in files if not path.is_relative_to(INSIDE) for place in executed(path)]
    assert found == []


def test_the_gate_sees_what_it_is_there_for() -> None:
    inside = [place for path in INSIDE.glob("*.py") for place in executed(path)]
    assert {place.rpartition(" ")[2] for place in inside} == {"exec", "compile"}
