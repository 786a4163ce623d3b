# One command each: `make demo` shows what vecenv does, `make test` runs what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Installed before the rest asks for "torch": on Linux the newest one may come with CUDA, several GB of it.
TORCH := torch==2.13.0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Two processes, each with whole test files; pytest-benchmark has no use for them.
PARALLEL := -n 2 --dist loadfile -p no:benchmark

.PHONY: demo test slow lint bench compare clean

demo: $(VENV)/installed
	$(BIN)/python -m vecenv rollout CartPole-v1 --num-envs 4096 --num-steps 20000 --progress

test: $(VENV)/installed-test
	$(BIN)/python -m pytest $(PARALLEL)
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest $(PARALLEL) -m "nojit and not slow" tests/kernels
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(PARALLEL) -m "nojit and not slow"

slow: $(VENV)/installed-test
	$(BIN)/python -m pytest $(PARALLEL) -m slow

# mypy reads an installed copy: in the source tree vecenv.kernels is not below vecenv/.
lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	rm -rf build
	$(BIN)/python -m pip install -q --no-deps --target build/lint .
	cd build/lint && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p vecenv

bench: $(VENV)/installed-test
	$(BIN)/python -m pytest benchmarks

compare: $(VENV)/installed-test
	$(BIN)/python -m benchmarks.compare

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'vecenv needs Python 3.11 or newer; name one: make PYTHON=python3.11 ...'; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	touch $@

$(VENV)/installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q $(TORCH)
	$(BIN)/python -m pip install -q -e ".[test]"
	touch $@ $(VENV)/installed

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[dev]"
	touch $@ $(VENV)/installed $(VENV)/installed-test

clean:
	rm -rf $(VENV) build *.egg-info
