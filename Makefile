# One command each: `make demo` shows what vecenv does, `make test` runs what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test slow lint clean

demo: $(VENV)/installed
	$(BIN)/python -m vecenv rollout CartPole-v1 --num-envs 4096 --num-steps 2000

test: $(VENV)/installed-test
	$(BIN)/python -m pytest
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -m "nojit and not slow"
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m "nojit and not slow"

slow: $(VENV)/installed-test
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy -p vecenv

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	touch $@

$(VENV)/installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[test]"
	touch $@ $(VENV)/installed

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[dev]"
	touch $@ $(VENV)/installed $(VENV)/installed-test

clean:
	rm -rf $(VENV) build *.egg-info
