# `make` alone lists the targets. Everything is set up in .venv, on first use of any target that needs it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
ARGS ?=
SEED ?=
KEEP ?=
SPARK_SOURCE ?=
OWN_SPARK := $(shell sed -n 's/^pyspark==\([0-9.]*\); python_version >=.*/\1/p' constraints.txt)
HIVES ?= 3.1.3 4.0.1
LAKE_SPARK := 4.0.2
SPARKS ?= 3.5.8 4.0.2 4.1.1 $(OWN_SPARK)
PYTHONS ?= 3.10 3.12 3.13
RELEASES ?= bookworm trixie
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-color -c constraints.txt
PROGRESS := $(PYTHON) cli/quickstart/progress.py

# The many short processes of the suite would compile every module again and again.
unexport PYTHONDONTWRITEBYTECODE

# The stamp names what was installed: while these files and the folder are the same, nothing is downloaded.
SET_UP := $(shell { cat setup.cfg pyproject.toml constraints.txt; pwd; } | cksum | cut -d ' ' -f 1)
STAMP := .venv/installed-$(SET_UP)
UNIT_STAMP := .venv/units-$(SET_UP)

.PHONY: help install run test unit compat-python compat-spark compat-jvm compat-hive compat-lakes compat-dbt compat-kerberos compat-deploy compat-s3 foreign check lint types sim mutants killers soak bench walks nightly fresh screenshots dist clean

help:  ## list the targets
	@echo "usage: make TARGET [PYTHON=python3.12]"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

install: $(STAMP)  ## set up .venv (downloads once)

run: $(STAMP)  ## start the whole stack and a demonstration; ARGS=--once ends by itself
	@$(BIN)/topicast quickstart $(ARGS)

# Measured on 2 cores: 559 to 575 s with four processes, 1,050 s of processor. Each process has a stack of its own.
test: $(STAMP)  ## run the whole suite; ARGS="tests/topics -k settings" runs a part
	@$(BIN)/python -m pytest --numprocesses=4 $(ARGS)

unit: $(or $(wildcard $(STAMP)),$(UNIT_STAMP))  ## run what needs no metastore, no Spark and no process; sets up without PySpark
	@$(BIN)/python -m pytest --unit --numprocesses=4 $(ARGS)

check: lint types test  ## everything that must pass before a merge

lint: $(STAMP)  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)  ## mypy --strict, settings in setup.cfg
	@$(BIN)/mypy

sim: $(STAMP)  ## simulate 10,000 seeds, the suite has 100; SEED=7 replays one
	@SIM_SEEDS=10000 SIM_SEED=$(SEED) $(BIN)/python -m pytest tests/sim --timeout=1800 $(ARGS)

mutants: .venv/mutants-$(SET_UP)  ## change the code of each rule of docs/protocol.md: a test must fail; ARGS="P-SUB-3" tries one
	@$(BIN)/python tests/mutants/run.py $(ARGS)

killers: .venv/mutants-$(SET_UP)  ## name the mutants of a module that no test notices, and tests that notice none alone; ARGS="MODULE TESTS"
	@$(BIN)/python tests/mutants/killers.py $(ARGS)

soak: $(STAMP)  ## let Spark drivers write and read at once, then fail, at full length; SOAK_S=300 for so long
	@CELLS=all SOAK_S=$${SOAK_S:-60} SILENT_S=30 LEASE_S=30 LATE_S=1 $(BIN)/python -m pytest -q -s \
	  tests/spark/test_refresh_concurrent.py tests/spark/test_refresh_faults.py $(ARGS)

bench: $(STAMP)  ## run every benchmark beside what is recorded; ARGS=tests/bench/bench_wire.py runs one, KEEP=1 records
	@$(BIN)/python tests/bench/run.py $(if $(KEEP),--keep) $(ARGS)

walks: $(STAMP)  ## count the files that a fact goes through; ARGS=-v lists them
	@$(BIN)/python tests/walks.py $(ARGS)

# Each has a .venv of its own in .venv, with the versions that constraints.txt has for it.
compat-python: $(STAMP)  ## run units and Spark's tests on each other Python that is found; PYTHONS=3.10 on one
	@$(BIN)/python tests/pythons.py '$(PYTHONS)' $(ARGS)

# Runs pytest with each version, which is put before the .venv's own; the drivers that tests start inherit it.
define ON_EACH_SPARK
@failed=; for version in $(SPARKS); do \
  echo "Spark $$version"; export PYTHONPATH='$(CURDIR)/.venv/spark-'$$version; \
  $(BIN)/python -c "import pyspark as it; assert it.__version__ == '$$version', it.__file__" \
  && $(BIN)/python -m pytest $(1) $(ARGS) || failed+=" $$version"; \
done; [ -z "$$failed" ] || { echo "failed with Spark$$failed" >&2; exit 1; }
endef
EACH_SPARK := $(patsubst %,.venv/spark-%/installed,$(filter-out $(OWN_SPARK),$(SPARKS)))

compat-spark: $(STAMP) $(EACH_SPARK)  ## run Spark's tests with each of its versions; SPARKS=3.5.8 with one
	$(call ON_EACH_SPARK,tests/spark tests/subscriber/spark)

compat-jvm: $(STAMP) $(EACH_SPARK) .venv/yarn/installed  ## run drivers of every language, and what goes wrong with their agents, with each version of Spark
	$(call ON_EACH_SPARK,--nightly tests/spark/jvm tests/spark/test_run.py tests/spark/test_thrift_server.py)

# Spark's own client of the metastore is of 2.3, which 3.1 understands; to 4 it speaks by the client of 4.
compat-hive: $(STAMP) $(patsubst %,.venv/hive-%/installed,$(HIVES))  ## run the metastore's tests on Hive 3.1 and 4.0, too (mvn, a JDK); HIVES=3.1.3 on one
	@failed=; for version in $(HIVES); do \
	  echo "Hive $$version"; TOPICAST_TEST_HIVE='$(CURDIR)/.venv/hive-'$$version \
	  $(BIN)/python -m pytest --timeout=600 tests/catalog/metastore/test_releases.py \
	    tests/catalog/metastore/test_port.py tests/catalog/metastore/test_facts.py tests/catalog/metastore/test_replaced.py \
	    tests/integration/test_metastore_without_listener.py tests/catalog/metastore/test_reconciled.py \
	    tests/integration/test_machine.py tests/integration/test_large_event.py $(ARGS) || failed+=" $$version"; \
	  case $$version in 4.[12]*) echo "Hive $$version: plans are not tried, Spark has no client for it"; continue;; esac; \
	  CELLS=all TOPICAST_TEST_HIVE='$(CURDIR)/.venv/hive-'$$version \
	  $(BIN)/python -m pytest tests/spark/test_planning.py -k have_the_same_answers $(ARGS) || failed+=" $$version"; \
	done; echo "ran on Hive $(HIVES); not run: $(or $(filter-out $(HIVES),3.1.3 4.0.1 4.1.0 4.2.0),none); make test runs on 2.3.10"; \
	[ -z "$$failed" ] || { echo "failed on Hive$$failed" >&2; exit 1; }

# Spark's own Ivy downloads the runtimes that the tests name, once, into .venv/lakes.
compat-lakes: $(STAMP) .venv/spark-$(LAKE_SPARK)/installed .venv/pyiceberg/installed .venv/hive-3.1.3/installed  ## run Iceberg's and Delta's released runtimes in attached drivers, and pyiceberg beside one (290 MB, once; mvn, a JDK)
	@PYTHONPATH='$(CURDIR)/.venv/spark-$(LAKE_SPARK)' $(BIN)/python -m pytest tests/lakes --timeout=600 $(ARGS)

compat-dbt: $(STAMP) .venv/dbt/installed  ## run a project of dbt in attached drivers, and read what it builds (110 MB, once)
	@PYTHONPATH='$(CURDIR)/.venv/dbt' $(BIN)/python -m pytest tests/dbt --timeout=1200 $(ARGS)

compat-kerberos: $(STAMP) .venv/kerberos/installed  ## log in to a metastore by Kerberos, at a KDC on loopback (needs libkrb5-dev and a C compiler; 5 MB, once)
	@PYTHONPATH='$(CURDIR)/.venv/kerberos/python' $(BIN)/python -m pytest tests/kerberos --timeout=300 $(ARGS)

compat-deploy: $(STAMP) .venv/deploy/installed  ## check what deploy/ holds: systemd's units, Kubernetes' manifests, Spark behind a NAT (needs systemd-analyze; 23 MB, once)
	@PYTHONPATH='$(CURDIR)/.venv/deploy' $(BIN)/python -m pytest tests/deploy $(ARGS)

compat-s3: $(STAMP) .venv/s3/installed  ## run the pipelines on an object store: moto's S3 server behind s3a (130 MB, once)
	@$(BIN)/python -m pytest tests/s3 --timeout=600 $(ARGS)

# Nothing of Spark's source is in this repository. A checkout of the tag of the installed PySpark has the fitting tests.
foreign: $(STAMP)  ## run Spark's own tests plain and attached, from a checkout: SPARK_SOURCE=DIR; ARGS="test_catalog sql.show" some
	@$(BIN)/python -m topicast.tests.foreign.run '$(SPARK_SOURCE)' $(ARGS)

nightly: $(STAMP)  ## what takes three hours: every cell, a soak, 10,000 seeds, formats, a new Debian; ARGS="cells sim" some, KEEP=1 records each
	@$(BIN)/python tests/nightly.py $(if $(KEEP),--keep) $(ARGS)

screenshots: $(STAMP)  ## write the pictures of pages in docs/ anew, of a small stack of its own (needs chromium)
	@$(BIN)/python -m topicast.tests.integration.screenshots docs

# It installs nothing here: the new root sets itself up.
fresh:  ## run the README's two commands on a new Debian (root, debootstrap); RELEASES=trixie on one
	@$(PYTHON) tests/fresh.py $(RELEASES) $(ARGS)

dist: $(STAMP)  ## build the wheel and the source archive into dist/
	@$(BIN)/python -c 'from setuptools.build_meta import build_sdist, build_wheel; build_sdist("dist"); build_wheel("dist")'
	@ls dist

clean:  ## remove what was built, not .venv
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	@find . -path ./.venv -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

.venv/spark-%/installed: | $(STAMP)
	@echo "installing Spark $* into $(@D) (about 450 MB)"
	@rm -rf '$(@D)'
	@$(BIN)/python -m pip install --disable-pip-version-check --no-color --target '$(@D)' 'pyspark==$*' | $(PROGRESS)
	@touch $@

.venv/hive-%/installed: | $(STAMP)
	@echo "installing Hive $* into $(@D) (about 100 MB)"
	@$(BIN)/python tests/hive/install.py '$*' '$(@D)'
	@touch $@

.venv/deploy/installed: | $(STAMP)
	@command -v systemd-analyze >/dev/null || { echo "make compat-deploy needs systemd-analyze: on Debian and Ubuntu, apt install systemd" >&2; exit 2; }
	@echo "installing the schemas of Kubernetes into $(@D)"
	@rm -rf '$(@D)'
	@$(BIN)/python -m pip install --disable-pip-version-check --no-color -q --target '$(@D)' 'kubernetes-validate==1.37.0'
	@echo "fetching what docs/deploy.md installs"
	@$(BIN)/python -m pip wheel --disable-pip-version-check --no-color -q -c constraints.txt --no-build-isolation -w '$(@D)/wheels' '.[catalog]'
	@rm '$(@D)'/wheels/topicast-*.whl
	@touch $@

.venv/pyiceberg/installed: | $(STAMP)
	@echo "installing pyiceberg into $(@D)"
	@rm -rf '$(@D)'
	@$(BIN)/python -m pip install --disable-pip-version-check --no-color --target '$(@D)' 'pyiceberg[hive]==0.12.0' | $(PROGRESS)
	@touch $@

.venv/dbt/installed: | $(STAMP)
	@echo "installing dbt for Spark into $(@D)"
	@rm -rf '$(@D)'
	@$(BIN)/python -m pip install --disable-pip-version-check --no-color --target '$(@D)' 'dbt-core==1.10.23' 'dbt-spark==1.10.3' | $(PROGRESS)
	@touch $@

.venv/kerberos/installed: | $(STAMP)
	@echo "building gssapi and fetching a KDC into $(@D)"
	@$(BIN)/python tests/kerberos/install.py '$(@D)'
	@touch $@

.venv/s3/installed: | $(STAMP)
	@echo "fetching Hadoop's S3 file system and moto's server into $(@D)"
	@$(BIN)/python tests/s3/install.py '$(@D)'
	@touch $@

.venv/yarn/installed: | $(STAMP)
	@echo "installing a small YARN into $(@D) (95 MB)"
	@$(BIN)/python tests/spark/jvm/install.py '$(@D)'
	@touch $@

.venv/mutants-%: | $(STAMP)
	@$(PIP) -e '.[mutants]' --no-build-isolation | $(PROGRESS)
	@touch $@

# One make at a time sets up: a second one waits for it, then finds the stamp. The lock is this folder's.
LOCKED := $(PYTHON) -c 'import fcntl, os, sys; fd = os.open(".", os.O_RDONLY); os.set_inheritable(fd, True); \
  fcntl.flock(fd, fcntl.LOCK_EX); os.execvp(sys.argv[1], sys.argv[1:])'
define CHECK_PYTHON
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
  || { echo "Topicast needs Python 3.10 or newer, and '$(PYTHON)' is not: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
  || { echo "'$(PYTHON)' cannot make virtual environments: on Debian and Ubuntu, apt install python3-venv" >&2; exit 1; }
endef

ifndef IS_LOCKED
$(STAMP) $(UNIT_STAMP):
	$(CHECK_PYTHON)
	@$(LOCKED) $(MAKE) --silent --no-print-directory IS_LOCKED=1 $@
else

# A .venv that was moved with its checkout holds another folder's paths: it is made anew.
define MAKE_VENV
@grep -qsF '$(CURDIR)/.venv/' $(BIN)/pip \
  || { echo "[1/3] making .venv with $$($(PYTHON) --version)"; $(PYTHON) -m venv --clear .venv; }
endef

$(STAMP):
	$(MAKE_VENV)
	@echo "[2/3] installing what constraints.txt lists (PySpark is about 450 MB: minutes the first time)"
	@$(PIP) setuptools | $(PROGRESS)
	@$(PIP) --no-build-isolation -e '.[dev]' | $(PROGRESS)
	@echo "[3/3] linking the tree for mypy, and pyspark_topicast for Spark, which sees no editable install"
	@mkdir -p .venv/tree .venv/sources
	@ln -sfn '$(CURDIR)' .venv/tree/topicast
	@ln -sfn '$(CURDIR)/pyspark_topicast' .venv/sources/pyspark_topicast
	@echo '$(CURDIR)/.venv/sources' > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/pyspark_topicast.pth"
	@rm -f .venv/installed-* .venv/units-*
	@touch $@

$(UNIT_STAMP):
	$(MAKE_VENV)
	@echo "[2/3] installing what units need, without PySpark"
	@$(PIP) setuptools | $(PROGRESS)
	@$(PIP) --no-build-isolation -e '.[unit]' | $(PROGRESS)
	@rm -f .venv/units-*
	@touch $@
	@echo "[3/3] done"

endif
