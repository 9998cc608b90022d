"""One-file models on the command line: ``everspan learn, predict, show, report, forget, check, ...``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TABLE = "CSV (also gzipped), Parquet or Arrow"


def add_commands(commands: Any, predict_pictures: Callable[[argparse.Namespace], int]) -> None:
    """The commands' parsers; ``predict_pictures`` is what `predict` does with the folder of a run."""
    _add_learn(commands)
    _add_predict(commands, predict_pictures)
    show = commands.add_parser(
        "show",
        help="what a one-file model knows: tasks, growth, errors, who needs labels",
        description="Prints what a file made by `everspan learn` (or `save` in Python) knows. It is read without "
        "loading its tasks, so it is quick for a million of them, also while another process learns into it.",
        epilog="examples: everspan show shop.everspan; everspan show shop.everspan --task acme --json",
    )
    show.add_argument("file", type=Path, metavar="FILE.everspan")
    show.add_argument("--tasks", action="store_true", help="a line for every task")
    show.add_argument("--task", metavar="NAME", help="one task")
    show.add_argument("--json", action="store_true", help="print JSON")
    show.set_defaults(run=_show)
    report = commands.add_parser(
        "report",
        help="a one-file model as a page to look at",
        description="Writes one HTML page that needs no network: growth over time, every task's error with its bound, "
        "the columns that features weigh, which tasks are alike, which need labels.",
        epilog="example: everspan report shop.everspan --out shop.html",
    )
    report.add_argument("file", type=Path, metavar="FILE.everspan")
    report.add_argument("--out", type=Path, help="the page, or a folder for it (default: FILE.html)")
    report.set_defaults(run=_report)
    forget = commands.add_parser(
        "forget",
        help="take tasks out of a one-file model, with all that was learned from their rows alone",
        description="Removes tasks: their predictors, events, digests of rows, the features learned from them, and "
        "texts that no other task has. What is left is refined anew, and the prior is learned anew. All named tasks "
        "are gone afterwards, or none. The command says what it cannot remove; --rebuild learns the file anew from "
        "its tables without the forgotten tasks, and then nothing of them is left.",
        epilog="examples: everspan forget shop.everspan acme 'other shop'; "
        "everspan forget shop.everspan acme --rebuild orders.csv",
    )
    forget.add_argument("file", type=Path, metavar="FILE.everspan")
    forget.add_argument("tasks", nargs="+", metavar="TASK", help="names, as `everspan show FILE --tasks` prints them")
    forget.add_argument(
        "--rebuild",
        nargs="+",
        type=Path,
        metavar="TABLE",
        help="learn anew from these tables, which need rows of all other tasks",
    )
    forget.add_argument("--quiet", action="store_true", help="no progress")
    forget.set_defaults(run=_forget)
    _add_care(commands)
    export = commands.add_parser(
        "export",
        help="one task as plain coefficients (.json) or ONNX, or all tasks as a Parquet table",
        description="The ending of --out says what is written: .json, a task's coefficients with how to use them; "
        ".onnx, a task from columns to label, for any ONNX runtime; .parquet, a row of coefficients for every task.",
        epilog="examples: everspan export shop.everspan --task acme --out acme.onnx; "
        "everspan export shop.everspan --out all.parquet",
    )
    export.add_argument("file", type=Path, metavar="FILE.everspan")
    export.add_argument("--task", metavar="NAME", help="the task, for .json and .onnx")
    export.add_argument("--out", type=Path, required=True, help="the file to write: .json, .onnx or .parquet")
    export.set_defaults(run=_export)


def _add_care(commands: Any) -> None:
    check = commands.add_parser(
        "check",
        help="is a one-file model sound?",
        description="Reads the whole file and verifies SQLite's structure, every checksum, every size and every "
        "reference, and that the model loads. Prints what is wrong, a line each, and ends with exit code 1 if "
        "anything is.",
        epilog="example: everspan check shop.everspan",
    )
    check.add_argument("file", type=Path, metavar="FILE.everspan")
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(run=_check)
    compact = commands.add_parser(
        "compact",
        help="make a one-file model as small as it can be",
        description="Writes the file anew without the gaps that forgetting and updating leave, in one transaction, "
        "and removes temporary files of stopped processes beside it. What it knows stays the same.",
        epilog="example: everspan compact shop.everspan",
    )
    compact.add_argument("file", type=Path, metavar="FILE.everspan")
    compact.set_defaults(run=_compact)
    backup = commands.add_parser(
        "backup",
        help="copy a one-file model, also while others write into it",
        description="Copies the file as it is at one moment into a new file, also while other processes learn into "
        "it (a plain copy could catch half a transaction). An existing file is not overwritten.",
        epilog="example: everspan backup shop.everspan shop-2026-11-19.everspan",
    )
    backup.add_argument("file", type=Path, metavar="FILE.everspan")
    backup.add_argument("out", type=Path, metavar="COPY.everspan")
    backup.set_defaults(run=_backup)


def _add_learn(commands: Any) -> None:
    learn = commands.add_parser(
        "learn",
        help="learn every task of a table into one file; again with new rows, and only these are learned",
        description=f"Reads a table ({_TABLE}) with a column that says which task a row belongs to and one with its "
        "label, and learns a model for every task into FILE.everspan, each on what the tasks before taught. The rows "
        "of a task may be scattered, and the table larger than memory. Numbers, truth values, texts and missing values "
        "are taken care of, in the same way every time. Tasks are in the file as they are learned: it may be stopped "
        "at any moment, and the same command goes on. Rows that were learned before are not learned again.",
        epilog="example: everspan learn shop.everspan orders.csv --task-column customer --target-column returned",
    )
    learn.add_argument("file", type=Path, metavar="FILE.everspan", help="made if it is not there")
    learn.add_argument("table", type=Path, metavar="TABLE", help=_TABLE)
    learn.add_argument(
        "--task-column", metavar="C", help="says which task a row belongs to (default: guessed, and said)"
    )
    learn.add_argument("--target-column", metavar="Y", help="what to predict (default: guessed, and said)")
    learn.add_argument("--all-rows", action="store_true", help="also rows that are the same as some learned before")
    learn.add_argument(
        "--memory", type=_bytes, default=1 << 28, metavar="SIZE", help="for rows held at once, like 500MB (268MB)"
    )
    learn.add_argument("--temp", type=Path, metavar="DIR", help="where rows are sorted by task, if they do not fit")
    learn.add_argument("--quiet", action="store_true", help="no progress")
    new = learn.add_argument_group("for a new file")
    new.add_argument("--kind", choices=("classification", "regression"), help="(default: found from the target)")
    new.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    new.add_argument(
        "--epsilon", type=float, help="the error a task may have above what it reaches alone (default: 0.1)"
    )
    new.add_argument("--goal", choices=("excess", "absolute"), help="absolute: epsilon is the error itself")
    new.add_argument("--loss", help="error, log_loss or auc (classes); squared_error (numbers)")
    new.add_argument("--class-weight", choices=("balanced",), help="let rare classes count as much as others")
    new.add_argument("--features", type=int, metavar="K", help="dimensions to keep (default: found as tasks come)")
    learn.set_defaults(run=_learn)


def _add_predict(commands: Any, predict_pictures: Callable[[argparse.Namespace], int]) -> None:
    predict = commands.add_parser(
        "predict",
        help="predictions for a table by a one-file model, or classes of pictures by the network of a run",
        description=f"With FILE.everspan and a table ({_TABLE}): a line for every row, with its task, the prediction "
        "and its probability, to standard output or --out. With the folder of a run of `everspan incremental` and "
        "picture files: a line a picture with its path, its most probable class and how probable it is, separated by "
        "tabs, or as a table (--out, .csv).",
        epilog="examples: everspan predict shop.everspan new.csv --keep order_id --out answers.csv; "
        "everspan predict cifar-hlll new/*.png",
    )
    predict.add_argument(
        "run_folder", type=Path, metavar="FILE.everspan|RUN", help="a one-file model, or a run's folder"
    )
    predict.add_argument("pictures", nargs="+", type=Path, metavar="TABLE|PICTURE", help="one table, or picture files")
    predict.add_argument("--out", type=Path, help="a .csv or .parquet file (default: standard output)")
    predict.add_argument("--keep", nargs="+", default=[], metavar="COLUMN", help="columns of the table to write too")
    predict.add_argument(
        "--unseen",
        choices=("empty", "prior", "error"),
        default="empty",
        help="for rows of unknown tasks: no prediction (default), what all tasks say together, or an error",
    )
    predict.add_argument(
        "--allow-code",
        action="store_true",
        help="import a method or backbone outside everspan that a run's settings name: this runs their code",
    )

    def run(options: argparse.Namespace) -> int:
        one_file = options.run_folder.is_file() or options.run_folder.suffix == ".everspan"
        if one_file and options.allow_code:
            raise ValueError("--allow-code goes with the folder of a run: a one-file model names no code")
        return _predict(options) if one_file else predict_pictures(options)

    predict.set_defaults(run=run)


class _Progress:
    """A line every few seconds on standard error, with the time that is left."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet, self._said = quiet, time.perf_counter()
        self._begun: dict[str, float] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.perf_counter()
        begun = self._begun.setdefault(what, now)
        if self._quiet or now - self._said < 2.0:
            return
        self._said = now
        line = f"{what}: {done:,} rows"
        if total:
            left = (now - begun) / done * (total - done) if now > begun else 0.0
            line = f"{what}: {done:,} of {total:,} tasks, about {left:.0f} s left"
        print(line, file=sys.stderr, flush=True)


def _learn(options: argparse.Namespace) -> int:
    from .one_file import learn

    names = {"epsilon": "epsilon", "goal": "goal", "loss": "loss", "class_weight": "class_weight"}
    names |= {"features": "n_features"}
    given = {name: value for key, name in names.items() if (value := getattr(options, key)) is not None}
    try:
        done = learn(
            options.file,
            options.table,
            task_column=options.task_column,
            target_column=options.target_column,
            kind=options.kind,
            drop=options.drop,
            all_rows=options.all_rows,
            parameters=given,
            memory=options.memory,
            folder=options.temp,
            progress=_Progress(options.quiet),
        )
    except KeyboardInterrupt:
        there = (
            "what was learned is in the file, and the same command goes on" if options.file.exists() else "nothing yet"
        )
        print(f"everspan learn: stopped: {there}", file=sys.stderr)
        return 130
    print("\n".join(learned_lines(done)))
    for name, reason in list(done.failed.items())[:10]:
        print(f"everspan learn: task {name!r:.60} was not learned whole: {reason}", file=sys.stderr)
    if len(done.failed) > 10:
        print(f"everspan learn: and {len(done.failed) - 10:,} more were not", file=sys.stderr)
    return 1 if done.failed else 0


def learned_lines(done: Any) -> list[str]:
    """What `learn` did, to be read in ten seconds."""
    from .one_file import overview, overview_lines

    lines = [*done.notes]
    counts = {action: sum(e.action == action for e in done.events) for action in ("reused", "grew", "updated")}
    said = ", ".join(f"{n:,} {action}" for action, n in counts.items() if n) or "nothing new"
    known = f"; {done.known:,} known already" if done.known else ""
    if done.known_rows and done.events:
        lines.append(f"{done.known_rows:,} rows were learned before: left out (--all-rows learns them)")
    failed = f"; {len(done.failed):,} not, or not whole" if done.failed else ""
    lines.append(f"learned {len(done.events):,} tasks in {done.seconds:.1f} s: {said}{known}{failed}")
    return lines + (overview_lines(overview(done.path)) if done.path.exists() else [])


def _predict(options: argparse.Namespace) -> int:
    from .one_file import predict

    if len(options.pictures) != 1:
        raise ValueError(f"{options.run_folder}: predicts for one table at a time, not {len(options.pictures)}")
    done = predict(
        options.run_folder,
        options.pictures[0],
        options.out,
        keep=options.keep,
        unseen=options.unseen,
        progress=_Progress(options.out is None),
    )
    if done.unknown:
        print(
            f"{done.unknown:,} of {done.rows:,} rows are of unknown tasks, like {done.some_unknown!r:.60}: {done.why}",
            file=sys.stderr,
        )
    if done.nameless:
        print(f"{done.nameless:,} of {done.rows:,} rows have no task: no prediction", file=sys.stderr)
    if options.out is not None:
        print(f"wrote {options.out}: {done.rows:,} rows")
    return 0


def _show(options: argparse.Namespace) -> int:
    from .one_file import event_lines, overview, overview_lines, task_events

    if options.tasks or options.task is not None:
        events = task_events(options.file, options.task)
        print(json.dumps(events, indent=1, default=str) if options.json else "\n".join(event_lines(events)))
        return 0
    found = overview(options.file)
    print(json.dumps(found, indent=1, default=str) if options.json else "\n".join(overview_lines(found)))
    return 0


def _report(options: argparse.Namespace) -> int:
    from .one_file import report

    out = options.out or options.file.with_suffix(".html")
    print(f"wrote {report(options.file, out, f'everspan report {options.file} --out {out}')}")
    return 0


def _forget(options: argparse.Namespace) -> int:
    from .one_file import forget, rebuild

    if options.rebuild:
        done = rebuild(options.file, options.tasks, options.rebuild, progress=_Progress(options.quiet))
    else:
        done = forget(options.file, options.tasks)
    left, width = len(done.model.history_), done.model.representation_.dimension
    print(f"forgot {done.count:,}; {left:,} tasks and {width} dimensions are left in {options.file}")
    for note in done.notes:
        print(f"  {note}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from .one_file import check

    found = check(options.file)
    if options.json:
        print(json.dumps({"file": str(found.path), "rows": found.rows, "problems": found.problems}, indent=1))
    elif found.problems:
        print("\n".join(f"{found.path}: {problem}" for problem in found.problems))
    else:
        counts = ", ".join(f"{count:,} rows of {table}" for table, count in found.rows.items())
        print(f"{found.path}: sound: {counts}")
    return 1 if found.problems else 0


def _compact(options: argparse.Namespace) -> int:
    from .one_file import compact, size_of

    before, after = compact(options.file)
    print(f"{options.file}: {size_of(before)} before, {size_of(after)} now")
    return 0


def _backup(options: argparse.Namespace) -> int:
    from .one_file import backup

    backup(options.file, options.out)
    print(f"wrote {options.out}")
    return 0


def _export(options: argparse.Namespace) -> int:
    from .one_file import export

    count = export(options.file, options.out, options.task)
    print(f"wrote {options.out}: {count:,} predictor{'' if count == 1 else 's'}")
    return 0


def _bytes(text: str) -> int:
    units = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "": 1}
    number = text.lower().rstrip("kmgb")
    try:
        size = int(float(number) * units[text.lower()[len(number) :]])
    except (KeyError, ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"a size is like 500MB or 2GB, not {text!r}") from None
    if size < 10**6:
        raise argparse.ArgumentTypeError(f"must be at least 1MB, not {text}")
    return size
