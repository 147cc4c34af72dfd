# Each target sets up .venv by itself, and only again when pyproject.toml or constraints.txt changed; the compiled core
# is built with it, and again when its sources changed. Without a C++ compiler torch computes instead.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SETUP  := $(VENV)/.setup
NATIVE := packages/indubio/src/indubio/numerics/native
READY  := $(VENV)/.ready

.PHONY: texts demo test test-all check format sanitize figures detectors commands life house site package bench bench-quick bench-cold bench-batch bench-server bench-flood quality fuzz clean

$(SETUP): pyproject.toml packages/indubio-server/pyproject.toml packages/indubio-lab/pyproject.toml constraints.txt hatch_build.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]" \
	    --editable "packages/indubio-server[live,mcp,oidc]" --editable "packages/indubio-lab[tune]"
	touch $(SETUP) $(READY)

$(READY): $(SETUP) $(wildcard $(NATIVE)/*.h $(NATIVE)/*.cpp $(NATIVE)/build.py)
	-$(BIN)/python $(NATIVE)/build.py
	touch $(READY)

demo: $(READY)            ## train on real data and print verdicts
	mkdir -p build
	$(BIN)/indubio demo --report build/demo.html

test: $(READY)            ## every test that is not slow (SCIPY_ARRAY_API: scikit-learn runs all its checks then)
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -m "not slow" -n 2

test-all: $(READY)        ## the slow ones too
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n 2

check: $(READY)           ## format, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

sanitize: $(READY)        ## the core under AddressSanitizer and UndefinedBehaviorSanitizer, fuzzed
	mkdir -p build
	$(BIN)/python $(NATIVE)/build.py --sanitize --out build/libindubio_core_sanitized.so
	LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 INDUBIO_CORE=build/libindubio_core_sanitized.so INDUBIO_CORE_EXAMPLES=400 \
	$(BIN)/python -m pytest -q tests/unit/numerics/test_core_border.py tests/reference/test_core.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

figures: $(READY)         ## the pictures of the README
	$(BIN)/python docs/make_figures.py

detectors: $(READY)       ## what resampling does to other detectors, into docs/any-detector.md; needs ODDS
	$(BIN)/python docs/measure_detectors.py

commands: $(READY)        ## what the commands print, in docs/commands.md
	$(BIN)/python docs/show_commands.py

texts: $(READY)           ## gather what is to be translated, and compile the catalogues of packages/indubio/src/indubio/texts
	$(BIN)/python docs/update_texts.py

life: $(READY)            ## what one row meets on its way to a verdict, into docs/life-of-a-row.md
	$(BIN)/python docs/trace_row.py

house: $(READY)           ## how much house there is: functions of whole commands, imports past doors, lines by room
	$(BIN)/python docs/measure_house.py

site: $(READY)            ## the documentation as a site, into build/site; a broken link or a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

package: $(READY)         ## wheels and sdists of all packages into dist, tried in a fresh environment
	rm -rf dist build/package
	for folder in . packages/indubio-server packages/indubio-lab; do INDUBIO_RELEASE=1 $(BIN)/python -m build --outdir dist $$folder || exit 1; done
	$(PYTHON) -m venv build/package
	build/package/bin/python -m pip install --quiet --constraint constraints.txt --find-links dist "$$(ls dist/indubio-*.whl)"
	cd build/package && bin/indubio --version && bin/indubio demo && ! bin/indubio serve 2> serve.txt && grep -q 'indubio\[server\]' serve.txt
	build/package/bin/python -m pip install --quiet --constraint constraints.txt --find-links dist "$$(ls dist/indubio-*.whl)[server,lab]"
	cd build/package && bin/indubio serve --help > /dev/null && bin/indubio datasets > /dev/null

bench: $(READY)           ## speed, as ratios within one run, into docs/benchmarks.md; about ten minutes
	$(BIN)/python -m benchmarks --write

bench-quick: $(READY)     ## the same in two or three minutes, on the terminal only
	$(BIN)/python -m benchmarks --quick

bench-cold: $(READY)      ## what a new user waits for, in a fresh environment, into docs/benchmarks.md
	$(BIN)/python -m benchmarks.cold_start

bench-batch: $(READY)     ## two million rows, Parquet to Parquet, over processes and Dask, into docs/batch.md
	$(BIN)/python -m benchmarks.batch --write

bench-server: $(READY)    ## load on the server against a plain endpoint, into build/server_load.txt
	$(BIN)/python -m benchmarks.serving

bench-flood: $(READY)     ## what others wait for while one address floods the server, into build/server_flood.txt
	$(BIN)/python -m benchmarks.flood

quality: $(READY)         ## detectors compared on ODDS and ADBench, into docs/benchmark-results.md; goes on where it stopped
	$(BIN)/indubio benchmark odds adbench --out build/quality --write docs/benchmark-results.md

fuzz: $(READY)            ## what the server does with bad input: more than 10,000 requests to a running server, into build/server_fuzz.txt
	mkdir -p build
	INDUBIO_FUZZ=12000 INDUBIO_FUZZ_OUT=build/server_fuzz.txt $(BIN)/python -m pytest tests/end_to_end/test_server_fuzzing.py

clean:
	rm -rf $(VENV) build dist $(NATIVE)/libindubio_core.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
