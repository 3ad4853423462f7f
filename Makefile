# Every target does its own set-up: a virtual environment in the checkout, exact versions from constraints.txt.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
ifeq ($(filter oneshell,$(.FEATURES)),)
$(error This make is too old: install GNU make 3.82 or newer (macOS: brew install make), then run gmake)
endif
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

# Processes share the cores, so each has one thread, and none compiles what another has compiled.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -n $${JOBS:-2} --dist loadfile --no-loadscope-reorder
LONG := slurm or chromium or faults or slow

.PHONY: help setup demo test test-all test-isa ui faults fuzz gpu-check mutants miniatures docs site lint constraints clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## create .venv and install what is needed; nothing to do the second time

$(INSTALLED): pyproject.toml constraints.txt
	@begin=$$SECONDS
	python=$$(for name in python3.11 python3.12 python3.13 python3 python; do
	  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$name; break; fi
	done)
	if [ -z "$$python" ]; then echo "No Python 3.11 or newer on PATH: install one, then run make again." >&2; exit 1; fi
	if ! $(PYTHON) -c '' 2>/dev/null; then $$python -m venv --clear $(VENV); fi
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	$(PYTHON) -m compileall -qq -j 0 $(VENV)/lib || true # on all cores; pip uses one. Some packages have templates that are no Python
	touch $@
	echo "set-up: $$((SECONDS - begin)) s"

demo: $(INSTALLED) ## an archived result on photographs, then four methods on four domains of digits; three minutes
	@begin=$$SECONDS
	echo "26 methods on real photographs, from the archive (unified/first_pass, two seeds), on held-out domains:"
	$(PYTHON) -m fedshift rank unified/first_pass | sed -n 1p
	echo "Picture: docs/images/methods.svg"
	echo
	PYTHONDONTWRITEBYTECODE= $(PYTHON) -m fedshift run demo
	cat results/tables/demo/summary.md
	echo "Own images (id):"
	$(PYTHON) -m fedshift rank demo --metric id | sed -n 1p
	echo "Unseen images (ood):"
	$(PYTHON) -m fedshift rank demo | sed -n 1p
	echo "$$((SECONDS - begin)) s. Look at: results/report/demo/index.html"
	echo
	echo "What next:  source $(VENV)/bin/activate"
	echo "  fedshift train fdse --data digits --target ink --rounds 3      train one method once"
	echo "  fedshift compare --data folder:PATH --methods all              compare all methods on your own images"
	echo "  fedshift new method NAME                                       write a method of your own"
	echo "  docs/notebooks/domain_shift.ipynb                              what domain shift is, in ten minutes"
	echo "  fedshift list experiments                                      the papers' tables"

test: $(INSTALLED) ## run the tests that need no Slurm, Chromium, Snakemake or server, and little training (JOBS=2 at once)
	@$(PYTEST) -m 'not mutants and not ($(LONG))'

test-all: $(INSTALLED) ## run the other tests; those whose programs (Slurm, Chromium) are missing are skipped with a reason
	@$(PYTEST) $(SAMPLE) -m '$(LONG)'

test-isa: $(INSTALLED) ## a tenth of the numeric tests, others for each commit, by AVX2 and by no vector unit (SHARE=1: all)
	@export SAMPLE_KEY=$$(git rev-parse HEAD 2>/dev/null || date +%F) SAMPLE_SHARE=$${SHARE:-0.1}
	for isa in "avx2 AVX2" "default SSE41"; do
	  ATEN_CPU_CAPABILITY=$${isa% *} ONEDNN_MAX_CPU_ISA=$${isa#* } $(PYTEST) -p tests.sample \
	    tests/methods tests/models tests/federation tests/contract tests/evaluations
	done

ui: $(INSTALLED) ## MLflow in a browser, on this machine alone: http://127.0.0.1:5000 (another port: make ui PORT=5001)
	@case "$${MLFLOW_TRACKING_URI:-}" in http*) echo "MLflow is at $$MLFLOW_TRACKING_URI"; exit 0;; esac
	export MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false
	exec $(PYTHON) -m mlflow server \
	  --backend-store-uri "$${MLFLOW_TRACKING_URI:-sqlite:///mlflow.db}" --workers 1 --host 127.0.0.1 --port $${PORT:-5000}

faults: $(INSTALLED) ## COUNT=100 faults in a running experiment (SEED=0); half an hour
	@PYTHONPATH=src $(PYTHON) -m tests.faults.campaign --seed $${SEED:-0} --count $${COUNT:-100}

fuzz: $(INSTALLED) ## COUNT=10000 random files, trees, archives and partitions (SEED=0): none may end in a traceback
	@PYTHONPATH=src $(PYTHON) -m tests.fuzz.campaign --count $${COUNT:-10000} --seed $${SEED:-0}

gpu-check: $(INSTALLED) ## on a GPU: CPU against GPU, steps compared with a bare loop, several runs at once; about 40 minutes
	@$(PYTHON) benchmarks/gpu_check.py

mutants: $(INSTALLED) ## bugs that a test must notice: those of tests/mutants, then COUNT=400 random ones (SEED=0), with a score
	@$(PYTHON) -m pytest -m mutants tests/mutants
	$(PYTHON) -m tests.mutants.campaign --seed $${SEED:-0} --count $${COUNT:-400}

miniatures: $(INSTALLED) ## every experiment on small data, to tables, verdicts and scorecard; resumes
	@OMP_NUM_THREADS=1 PYTHONPATH=src $(PYTHON) -m tests.miniatures.campaign --write

docs: $(INSTALLED) ## write the generated pages and schemas from the code
	@$(PYTHON) docs/generate

site: $(INSTALLED) ## the documentation as a site that needs no network: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build
	echo "site: build/site/index.html"

lint: $(INSTALLED) ## ruff, mypy, snakefmt and the order of the packages, all in check mode
	@$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	MYPYPATH=src:benchmarks:docs/generate $(PYTHON) -m mypy --follow-imports silent benchmarks/*.py
	MYPYPATH=src $(PYTHON) -m mypy docs/generate
	$(VENV)/bin/snakefmt --check Snakefile workflow
	$(VENV)/bin/lint-imports --no-logo

constraints: $(INSTALLED) ## write constraints.txt again from the present environment
	@{ sed -n '/^#/p' constraints.txt; $(PYTHON) -m pip freeze --all --exclude fedshift --exclude pip | grep -E '^[A-Za-z0-9._-]+=='; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove caches and logs; data, results and .venv stay
	@rm -rf logs build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
