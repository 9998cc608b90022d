"""Strangers' run folders, pictures and pickles get one line each: no traceback, no crash, no code run, little memory.

1,000 run folders that were changed (half of them by somebody who knows the format: digests are right), 500 damaged
pictures, 100 damaged pickles in the place of CIFAR's files, 300 odd ``.npz`` files, and all that was made by hand. On
every folder `everspan predict` is run, `everspan compare` where its results were changed, and every eighth is resumed.
A command may work or print one printable line and end with code 2. Measured are the peak memory of the processes, with
Python and PyTorch in it, and the longest CPU time of a command (a resumed run trains, and is not timed). The
generators and checks are in tests/deep/strangers.py, of which the tests run a sample.

Measured on 2 cores (AMD EPYC), 2026-11-19; raw numbers in results/strange_runs.json:

| | cases | worked | refused in one line | anything else | peak memory, MB | longest command, CPU s |
|---|---|---|---|---|---|---|
| folders | 1,104 | 647 | 956 | 0 | 457 | 3.11 |
| pictures | 527 | 103 | 424 | 0 | 358 | 0.1 |
| pickles | 132 | 0 | 132 | 0 | 292 | 0.5 |
| npz | 300 | 30 | 270 | 0 | 273 | 0.0 |

Run it (about 10 minutes on 2 cores) with

    python benchmarks/strange_runs.py
    python benchmarks/strange_runs.py --only pictures
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from common import measured, read, write

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import PIL
import torch

from tests.deep import strangers

COUNTS = {"folders": 1000, "pictures": 500, "pickles": 100, "npz": 300}
BATCH = 25  # in a process of its own, so that a crash is seen and ends nothing else
LIMITS = {"peak_megabytes": 1074, "most_cpu_seconds": 10.0}


def cases(kind, home, work):
    """All cases of a kind: (name, a function that checks it and returns codes)."""

    def folder(place, method, change, resume):
        path = work / str(place) / "run"
        change(home / method, path)
        try:
            return strangers.check_run(home, path, method, resume)
        finally:
            shutil.rmtree(path.parent, ignore_errors=True)

    def by_hand(name):
        def change(whole, path):
            shutil.copytree(whole, path)
            strangers.made_by_hand(whole)[name](path)

        return change

    methods, count = list(strangers.METHODS), COUNTS[kind]
    if kind == "folders":
        for method in methods:
            for name in strangers.made_by_hand(home / method):
                yield name, lambda m=method, n=name: folder("hand", m, by_hand(n), True)
        for seed in range(count):

            def odd(whole, path, seed=seed):
                strangers.odd_run(np.random.default_rng(seed), whole, path)

            yield seed, lambda s=seed, c=odd: folder(s, methods[s % len(methods)], c, s % 8 == 0)
    elif kind == "pictures":
        for path in strangers.odd_pictures_by_hand(work):
            yield path.name, lambda p=path: [strangers.check_picture(home, p)]
        for seed in range(count):

            def picture(seed=seed):
                path = strangers.odd_picture(np.random.default_rng(seed), work)
                return [strangers.check_picture(home, path)]

            yield seed, picture
    elif kind == "pickles":
        for name, content in strangers.odd_pickles_by_hand().items():
            yield name, lambda c=content: [strangers.check_pickle(work, c)]
        for seed in range(count):
            yield seed, lambda s=seed: [strangers.check_pickle(work, strangers.odd_pickle(np.random.default_rng(s)))]
    else:
        for seed in range(count):

            def arrays(seed=seed):
                path = work / "odd.npz"
                path.write_bytes(strangers.odd_npz(np.random.default_rng(seed), home / "images.npz"))
                return [strangers.check_npz(path)]

            yield seed, arrays


def check(batch):
    """What became of a batch: refused and working commands, the slowest, and what was wrong by case."""
    wrong, codes = {}, []
    for name, work in batch:
        try:
            codes += work()
        except AssertionError as error:
            wrong[str(name)] = str(error)[:500]
        except Exception as error:
            wrong[str(name)] = f"traceback of {type(error).__name__}: {error}"[:500]
    return {"worked": codes.count(0), "refused": codes.count(2), "seconds": max(strangers.SECONDS), "wrong": wrong}


def measure(kind, home, work):
    everything = list(cases(kind, home, work))
    total = {"cases": len(everything), "commands_that_worked": 0, "commands_refused": 0, "wrong": {}}
    total |= {"crashes": 0, "peak_megabytes": 0, "most_cpu_seconds": 0.0}
    for start in range(0, len(everything), BATCH):
        batch = everything[start : start + BATCH]
        crash, peak, found = strangers.in_a_child(lambda batch=batch: check(batch))
        total["peak_megabytes"] = max(total["peak_megabytes"], round(peak / 1e6))
        if found is None:
            total["crashes"] += 1
            total["wrong"][f"{start} to {start + len(batch)}"] = crash
            continue
        total["commands_that_worked"] += found["worked"]
        total["commands_refused"] += found["refused"]
        total["most_cpu_seconds"] = round(max(total["most_cpu_seconds"], found["seconds"]), 2)
        total["wrong"] |= found["wrong"]
        print(f"{kind}: {start + len(batch)} of {len(everything)}, {len(total['wrong'])} wrong", flush=True)
    return total


def table(results):
    lines = ["| | cases | worked | refused in one line | anything else | peak memory, MB | longest command, CPU s |"]
    lines.append("|---|---|---|---|---|---|---|")
    for kind in COUNTS:
        if kind in results:
            one = results[kind]
            figures = [one["commands_that_worked"], one["commands_refused"], len(one["wrong"]) + one["crashes"]]
            figures += [one["peak_megabytes"], one["most_cpu_seconds"]]
            lines.append(f"| {kind} | {one['cases']:,} | " + " | ".join(f"{value:,}" for value in figures) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=COUNTS, nargs="+", default=list(COUNTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = read("strange_runs")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        strangers.make_runs(home)
        (home / "payload.py").write_text(strangers.PAYLOAD)
        os.chdir(home)  # where a stranger's module would be found
        for kind in options.only:
            work = home / f"work-{kind}"
            work.mkdir()
            results[kind] = measure(kind, home, work)
            results |= measured(np, torch, PIL)
            write("strange_runs", results)
    print(table(results))
    for kind in options.only:
        for name, what in results[kind]["wrong"].items():
            print(f"{kind} {name}: {what}")
        assert not results[kind]["wrong"], kind
        assert all(results[kind][name] <= most for name, most in LIMITS.items()), kind


if __name__ == "__main__":
    main()
