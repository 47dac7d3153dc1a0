# make test    set up .venv and run the tests          make check   linting, formatting, types
# make demo    adapt to this machine's docstrings, offline make test-slow  real models and data ($NEARER_SHARED, minutes)
# make browser install Chromium (Debian, Ubuntu) for the tests that look at pages; without one they are skipped
# make pictures the screenshots of docs/images, as the browser tests make them
# make fuzz    the fuzz targets of tests/fuzz and of the service, with $(FUZZ) examples each (minutes to hours)
# make test-lowest  the tests of LOWEST with the lowest versions that pyproject.toml allows, in .venv-lowest
# make coverage     the tests with coverage; build/coverage/index.html shows the lines that no test runs
# make wheel   the wheel in dist/               make wheel-test  install it into an empty environment and use it (minutes)
# make hooks   check each commit with .pre-commit-config.yaml
# make docs    site/ from docs/, to be read in a browser without a network; a broken link is an error
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PICTURES := page-compare-desktop-light page-map-desktop-light page-search-phone-dark report-several-curves-desktop-light

FUZZ ?= 5000
LOWEST ?= tests/text tests/encoder tests/export/test_onnx_by_name.py tests/search/test_search_index.py tests/cli/test_model_commands.py \
  tests/training/test_run.py tests/serve/test_serve_endpoints.py tests/analysis/test_figures.py tests/construct/test_surface.py \
  tests/adaptation tests/search/test_hybrid.py

.PHONY: setup browser test test-slow test-lowest coverage fuzz architectures check format hooks demo docs wheel wheel-test pictures clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	{ SUDO=$$(command -v sudo || true); $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq --no-install-recommends chromium; }

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-slow: $(READY)
	$(BIN)/pytest -m slow

fuzz: $(READY)
	NEARER_FUZZ=$(FUZZ) OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal tests/fuzz tests/serve/test_serve_fuzz.py

coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term --cov-report=html

test-lowest: .venv-lowest/.ready
	OMP_NUM_THREADS=1 .venv-lowest/bin/pytest -n 2 --dist worksteal $(LOWEST) --deselect \
	  'tests/export/test_onnx_by_name.py::test_its_scores_are_those_of_the_model_it_was_made_of[mobilebert]' # near ties

.venv-lowest/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --upgrade pip
	.venv-lowest/bin/pip install --quiet --constraint constraints-lowest.txt torch
	.venv-lowest/bin/pip install --quiet --constraint constraints-lowest.txt \
	  --editable '.[parquet,serve,search,construct,documents,hub,onnx,plots,tensorboard,sentence-transformers]' \
	  pytest pytest-xdist hypothesis httpx scikit-learn
	touch $@

# docs/architectures.md: what works with which architecture, found out anew (minutes)
architectures: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/checkpoints/zoo_table.py

check: $(READY)
	$(BIN)/ruff check src tests examples benchmarks mkdocs_hooks
	$(BIN)/ruff format --check src tests examples benchmarks mkdocs_hooks
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix src tests examples benchmarks mkdocs_hooks
	$(BIN)/ruff format src tests examples benchmarks mkdocs_hooks

hooks: $(READY)
	$(BIN)/pre-commit install

demo: $(READY)
	$(BIN)/nearer demo

docs: $(READY)
	$(BIN)/mkdocs build

# setuptools puts all of build/lib into the wheel, also files that are no longer in src
wheel: $(READY)
	rm -rf build/lib
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

wheel-test: $(READY)
	$(BIN)/pytest -n0 -m 'slow or not slow' tests/test_wheel.py

pictures: $(READY)
	mkdir -p build/pictures docs/images
	NEARER_SCREENSHOTS=$(CURDIR)/build/pictures OMP_NUM_THREADS=1 $(BIN)/pytest -n0 tests/serve/page tests/report/test_report_page.py
	for name in $(PICTURES); do cp build/pictures/$$name.png docs/images/; done

clean:
	rm -rf .venv .venv-lowest build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
