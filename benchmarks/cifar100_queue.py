"""The CIFAR-100 runs that are wanted next, in order, and a scheduler for a card that is lent for a short time.

The scheduler takes the first entries of ``QUEUE`` without a result, runs a few at once, and copies every result to
``--out`` when its run ends, in the same folders as in ``benchmarks/results``. It stops the runs shortly before the
budget is over. A stopped run leaves ``partial/NAME.json`` there: the results of the tasks it has finished. The same
command resumes it from its last checkpoint, which is in ``--work``. One card fits three runs at once under CUDA's
multi-process service:

    nvidia-cuda-mps-control -d
    PYTHONPATH=src python benchmarks/cifar100_queue.py --data-dir D --work W --at-once 3 --budget 1500 --out OUT

It needs torch, numpy and safetensors alone.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import cifar100

HERE = Path(__file__).resolve().parent
REFINED = common.RESULTS / "cifar100_refine.json"
FEATURES = "features:"  # an entry that learns a run and saves its features, for cifar100_refine.py

QUEUE = (
    ("hlll_rr-best-1993", "two encoders after every task: does refinement keep 80.0 on average and 71.0 at the end?"),
    ("hlll_rr-best-1993-encoders=1", "one encoder: 78.5 and 69.0?"),
    ("features:hlll-best-1993", "for the linear step: accuracy against certified dimensions of ten encoders' features"),
    ("hlll_rr-best-1993-refined=all-refine_epochs=100", "is it better to train both encoders in every refinement?"),
    (
        "hlll_rr-best-1993-encoders=1-refine_memory=2-refine_epochs=130",
        "old images twice: less forgetting?",
    ),
    ("hlll_rr-best-1994", "the second class order"),
    ("hlll_rr-best-1994-encoders=1", "the second class order"),
    ("hlll_rr-best-1995", "the third class order"),
    ("hlll_rr-best-1995-encoders=1", "the third class order"),
    ("hlll-paper-1994-start=previous", "the warm start alone, beside order 1993"),
    ("hlll-paper-1995-start=previous", "the warm start alone, beside order 1993"),
    ("hlll-paper-1994-start=previous-auxiliary=1", "both of DER's habits, beside order 1993"),
    ("hlll-paper-1995-start=previous-auxiliary=1", "both of DER's habits, beside order 1993"),
    ("hlll-best-1993-first=50", "50 classes at once, then tens"),
    ("hlll_rr-best-1993-first=50", "50 classes at once, then tens"),
    ("hlll-best-1993-increment=5", "twenty tasks of five classes"),
    ("hlll_rr-best-1993-increment=5", "twenty tasks of five classes"),
    ("hlll-best-2026", "an order that nobody looked at while the recipe was chosen"),
    ("hlll-best-2027", "an order that nobody looked at while the recipe was chosen"),
)

LEAST = 120.0  # seconds that must be left for a run to be started
GRACE = 20.0  # seconds before the end of the budget at which the runs are stopped


def run_of(name):
    """The run that an entry learns."""
    return name.removeprefix(FEATURES)


def result_of(name, arguments):
    """The file in which an entry's results end."""
    folder = arguments.out / "features" if name.startswith(FEATURES) else arguments.results
    return cifar100.result_file(folder, run_of(name))


def partial_of(name, arguments):
    """The file with the results of an unfinished run's finished tasks."""
    return arguments.out / "partial" / result_of(name, arguments).name


def has_result(name, arguments):
    """Whether there is nothing left to do for an entry on the card."""
    measured = json.loads(REFINED.read_text()) if name.startswith(FEATURES) and REFINED.exists() else {}
    return result_of(name, arguments).exists() or run_of(name) in measured


class Job:
    """An entry of the queue that is running, in a process of its own."""

    def __init__(self, name, arguments):
        self.name, self.out = name, arguments.out
        self.result, self.partial = result_of(name, arguments), partial_of(name, arguments)
        run = run_of(name)
        self.progress, self.log = arguments.work / run / "results.json", arguments.work / f"{self.result.stem}.log"
        self.tasks_done = 0
        own = ["cifar100.py"]
        options = {"--data-dir": arguments.data_dir, "--work": arguments.work, "--results": arguments.results}
        if name.startswith(FEATURES):  # the run may have been measured before: its result of then stays
            own = ["cifar100_refine.py", "collect"]
            options |= {"--results": arguments.work, "--features": self.result.parent}
        given = [text for option, value in options.items() if value is not None for text in (option, str(value))]
        command = [sys.executable, str(HERE / own[0]), *own[1:], run, *given, "--at-once", str(arguments.at_once)]
        arguments.work.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.started = time.perf_counter()

    def land(self):
        """Copy what there is of the results to ``out``: all of them, or those of the tasks that are finished."""
        if self.process.poll() == 0:
            if self.out not in self.result.parents:
                folder = self.out / "cifar100"
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.result, folder / self.result.name)
            self.partial.unlink(missing_ok=True)
            return
        if not self.progress.exists():
            return
        results = json.loads(self.progress.read_text())
        if results["tasks_done"] > self.tasks_done:
            self.tasks_done = results["tasks_done"]
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            self.partial.write_text(json.dumps(results, indent=1) + "\n")
            self.say(f"task {self.tasks_done} of {results['tasks']}, accuracy {results['curve'][-1]:.2f}")

    def say(self, text):
        print(f"{time.perf_counter() - self.started:6.0f} s  {self.name}: {text}", flush=True)

    def stop(self):
        """Interrupt the run; it goes on from its last checkpoint next time."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(GRACE / 2.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.land()


def work_through(names, arguments, clock=time.perf_counter, pause=2.0):
    """Run what has no result yet, a few at once, until all is done or the budget is over; returns what failed."""
    deadline = clock() + arguments.budget - GRACE
    waiting = [name for name in names if not has_result(name, arguments)]
    running, failed = [], []
    try:
        while running or waiting:
            while waiting and len(running) < arguments.at_once and clock() < deadline - LEAST:
                running.append(Job(waiting.pop(0), arguments))
                running[-1].say("started")
            if not running or clock() >= deadline:
                break
            time.sleep(pause)
            for job in list(running):
                job.land()
                code = job.process.poll()
                if code is not None:
                    job.land()
                    running.remove(job)
                    job.say("done" if code == 0 else f"failed, see the end of its log:\n{tail(job.log)}")
                    failed += [job.name] if code else []
    finally:
        for job in running:
            job.say("stopped")
            job.stop()
    return failed


def tail(log, lines=15):
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def table(names, arguments):
    """What is known of every entry, in the order of the queue."""
    wide = max(map(len, names), default=0)
    print(f"{'run':{wide}s}  {'average':>8s}  {'last':>6s}  {'known task':>10s}  {'parameters':>11s}  {'seconds':>7s}")
    for name in names:
        files = [file for file in (result_of(name, arguments), partial_of(name, arguments)) if file.exists()]
        results = json.loads(files[0].read_text()) if files else {}
        if "curve" not in results:
            print(f"{name:{wide}s}  {'measured' if results else 'waiting'}")
            continue
        known = results.get("known_task", {}).get("average_incremental_accuracy", float("nan"))
        ended = files[0] == result_of(name, arguments)
        print(
            f"{name:{wide}s}  {results['average_incremental_accuracy']:8.2f}  {results['last_accuracy']:6.2f}  "
            f"{known:10.2f}  {results['parameters']:11,d}  {results['timing']['seconds']:7.0f}"
            + ("" if ended else f"  after {results['tasks_done']} of {results['tasks']} tasks")
        )


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="the folder that holds cifar-100-python")
    parser.add_argument("--work", type=Path, default=Path("cifar100-runs"), help="where runs and their logs are kept")
    parser.add_argument("--results", type=Path, default=cifar100.FOLDER, help="where results go and are looked for")
    parser.add_argument("--out", type=Path, help="a second folder for results, partial ones too (default: WORK/out)")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="runs that share the card at any time")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS", help="when to have stopped")
    parser.add_argument("--only", nargs="+", metavar="RUN", help="these runs, in this order, instead of the queue")
    arguments = parser.parse_args(given)
    arguments.out = arguments.out or arguments.work / "out"
    names = arguments.only or [name for name, _ in QUEUE]
    failed = work_through(names, arguments)
    table(names, arguments)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
