"""Damaged and malicious Arrow and Parquet files: no crash, one line each, bounded memory and time.

Claim: 1,000 damaged Arrow and Parquet files (bytes flipped, cut, doubled or put in; sizes and offsets replaced by large
numbers) and a few small files that are large in memory go through `everspan learn`, `learn` again and `predict`. None
ends the process, each that is refused gets one line, and every process stays below 1 GB; a damaged file takes at most
10 s. Results are in results/strange_tables.json, and docs/one-file.md tells them.

Run with ``python benchmarks/strange_tables.py`` (about two minutes on 2 cores); ``--count`` takes another number.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.one_file.fuzzing import BOMBS, Strange

MOST_MEMORY, MOST_SECONDS = 1e9, 10.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="damaged files")
    count = parser.parse_args().count
    started = time.perf_counter()

    def progress(done):
        if done % 100 == 0:
            print(f"{done:,} of {count:,} files, {time.perf_counter() - started:.0f} s", flush=True)

    damaged = Strange("fuzzing.strange_table", 0, count, progress)
    found = {"damaged files": count, "damaged": damaged.figures(), "small files that are large in memory": {}}
    for place, name in enumerate(BOMBS):
        done = Strange("fuzzing.bomb", place, place + 1)
        found["small files that are large in memory"][name] = done.figures()
        print(name, json.dumps(done.figures()), flush=True)
        assert not done.crashed, done.crashed
        assert done.peak < MOST_MEMORY
    print(json.dumps(found, indent=1))
    assert not damaged.crashed, damaged.crashed
    assert damaged.peak < MOST_MEMORY
    assert damaged.slowest < MOST_SECONDS
    common.write("strange_tables", {"measured": common.measured(np, pa), "found": found})


if __name__ == "__main__":
    main()
