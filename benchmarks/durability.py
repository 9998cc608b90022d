"""Every file operation of every command that writes, killed or failed one by one: afterwards nothing shows it.

A preloaded library counts what a process does to files in the model's folder (open, write, truncate, sync, rename,
link, unlink). Operation after operation is then killed (SIGKILL), failed with EIO and failed with ENOSPC. After each
fault `show`, `check` and `predict` work; the same command, given again, ends in the state of a run that was never
disturbed; and nothing is left beside the file. docs/format.md has the figures.

Run it with ``python benchmarks/durability.py`` (Linux with a C compiler; about 15 minutes on 2 cores). The tests take a
sample of 60 (tests/one_file/test_faults.py).
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.one_file import faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sample", type=int, help="only so many faults, by chance")
    options = parser.parse_args()
    sample = [] if options.sample is None else ["--sample", str(options.sample)]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = faults.run(Path(folder), *sample)
    if found is None:
        sys.exit("the library that counts operations needs Linux and a C compiler")
    for name, count in found["operations"].items():
        print(f"{name:28} {count:5} file operations")
    print(f"{found['faults']} faults, {len(found['wrong'])} wrong")
    print("\n".join(found["wrong"][:20]))
    if options.sample is None:
        seconds = time.perf_counter() - started
        common.write("durability", {"measured": common.measured(numpy), "found": found, "seconds": seconds})
    print(json.dumps({"faults": found["faults"], "wrong": len(found["wrong"])}))
    sys.exit(bool(found["wrong"]))


if __name__ == "__main__":
    main()
