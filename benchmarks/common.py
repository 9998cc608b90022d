"""What benchmarks share: one thread (import this before numpy), the hardware's name, the file of results."""

# ruff: noqa: E402

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import json
import platform
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def hardware():
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return f"{os.cpu_count()} cores, {model}, one thread"


def measured(*modules):
    """Where and when, with the versions of these modules."""
    versions = {module.__name__: module.__version__ for module in modules}
    return {"hardware": hardware(), "date": date.today().isoformat(), "versions": versions}


def read(name):
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(name, results):
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
