"""A class-incremental run in a folder: killed at any moment, the same command goes on and ends with the same figures.

The folder holds ``settings.json``; ``results.json`` and ``exemplars.json``, after every task; the last two checkpoints;
and in the end the exported model. A checkpoint is one file with all there is to know: weights, momentum, memory,
results, and the place.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..metrics import IncrementalResult, checked_results
from ..scenarios import ClassScenario, ClassTask, ImageSet, load_images
from ..untrusted import is_setting, is_text, one_line, parse_json, read_whole
from .augment import Augmentation
from .backbones import BACKBONES, backbone_factory, check_backbone
from .checkpoint import write_whole
from .engine import Engine, Place, Progress
from .memory import ExemplarMemory
from .methods import METHODS, Method, MethodSettings, load_method
from .settings import NORMALISATION, RunSettings, as_record, make_scenario
from .state import CHECKPOINT, NOTHING_SPENT, Note, State

MOST_BYTES = {"settings.json": 1 << 20, "results.json": 1 << 25}
MOST_PIXELS = 512 * 512  # of an image, with a network of everspan's: its first layers keep 64 numbers a pixel


def run(
    settings: RunSettings,
    own: MethodSettings,
    folder: Path,
    *,
    images: ImageSet | None = None,
    data_folder: Path | None = None,
    every: float = 60.0,
    progress: Callable[[ClassScenario, Method], Progress] | None = None,
    note: Note = print,
) -> dict[str, Any]:
    """Learn all tasks, or go on where a run in this folder was stopped.

    Parameters
    ----------
    settings, own : RunSettings, MethodSettings
        What to run; see `everspan.deep.settings.resolve`.
    folder : Path
        Where the run is kept.
    images : ImageSet, optional
        Your own images; ``settings.data`` is then only their name.
    data_folder : Path, optional
        Where CIFAR is.
    every : float
        Seconds between checkpoints inside a task; one is written at the end of every task in any case.
    progress : (scenario, method) -> Progress, optional
        Is told of every epoch.
    note : (str) -> None
        Is told what a person should know.

    Returns
    -------
    results : dict
        What ``results.json`` holds.
    """
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    settings = concrete(settings)
    images = load_images(settings.data, data_folder) if images is None else images
    scenario = make_scenario(settings, images)
    record = as_record(settings, own)
    state = State(folder, record, every, note)
    data = described(scenario, settings)
    train_images, labels = torch.from_numpy(scenario.images.train_images), torch.from_numpy(scenario.train_labels)
    method = build(settings, own, data, train_images, labels, keeper=state)  # before any work is lost
    with claimed(folder, record):
        ended = _ended_without_checkpoints(folder)
        if ended is not None:
            note(f"the run in {folder} has ended, its checkpoints are gone: these are its figures")
            return ended
        return _run(state, scenario, data, settings, method, progress, images.digest())


def _run(
    state: State,
    scenario: ClassScenario,
    data: dict[str, Any],
    settings: RunSettings,
    method: Method,
    progress: Callable[[ClassScenario, Method], Progress] | None,
    digest: str,
) -> dict[str, Any]:
    folder = state.folder
    found = bool(state.files())
    if state.find(put_aside=True):
        if state.data != data:
            raise ValueError(
                f"{settings.data} is no longer what it was when the run in {folder} began: choose another --out"
            )
        if state.place.task < len(scenario):
            state.note(f"going on: {state.place.task} of {len(scenario)} tasks are done")
    elif found:
        state.note("no checkpoint is whole: the run begins anew")
    state.data = data
    engine, memory = method.engine, method.memory
    if progress is not None:
        engine.progress = progress(scenario, method)
    test = torch.from_numpy(scenario.images.test_images).to(engine.device)
    test_labels = torch.from_numpy(scenario.test_labels).to(engine.device)
    state.engine = engine
    replay(method, scenario[: state.place.task])
    _check_memory(state, method, scenario.train_labels)
    memory.rows = [list(rows) for rows in state.memory_rows]
    if state.tensors and (state.place.stage, state.place.epoch) == (0, 0):
        state.load(method)
    for task in scenario[state.place.task :]:
        state.started = time.perf_counter()
        engine.trained_images, engine.training_seconds = 0, 0.0
        learn_task(method, task)
        if settings.checkpoint_precision == "bf16":
            _round(method)
        state.memory_rows = memory.rows
        seen = scenario[: task.index + 1]
        correct, known_task = _correct(engine, method, test, test_labels, seen)
        state.correct.append(correct)
        step = {**state.so_far(), "parameters": parameters(method), "exemplars": len(memory), "known_task": known_task}
        if engine.flip_test or engine.shift_test:
            step["by_one_view"], _ = _correct(engine, method, test, test_labels, seen, one_view=True)
        state.steps.append(step)
        state.spent, state.tensors = dict(NOTHING_SPENT), {}  # what was read has been taken up
        state.write(Place(task.index + 1), method, {})
        _results(state, scenario, folder, digest)
    return _results(state, scenario, folder, digest)


def _check_memory(state: State, method: Method, labels: Any) -> None:
    """See that a checkpoint's memory holds images that there are, each under its own class."""
    rows = state.memory_rows
    good = len(rows) == len(method.memory.rows) and all(
        all(row < len(labels) for row in own) and (labels[own] == label).all() for label, own in enumerate(rows)
    )
    if not good:
        raise ValueError(f"the checkpoint in {state.folder} remembers images of other classes: choose another --out")


def described(scenario: ClassScenario, settings: RunSettings) -> dict[str, Any]:
    """What a model must know of its data to work without them, and a digest to know them again."""
    images = scenario.images
    digest = hashlib.blake2b(digest_size=16)
    for array in (images.train_images, scenario.train_labels, images.test_images, scenario.test_labels):
        digest.update(np.ascontiguousarray(array).data)
    mean, std = NORMALISATION.get(settings.data) or _normalisation(scenario)
    return {
        "digest": digest.hexdigest(),
        "names": [images.names[c] for c in scenario.order],
        "sizes": [len(task.labels) for task in scenario],
        "shape": list(images.train_images.shape[1:]),
        "mean": list(mean),
        "std": list(std),
    }


def build(
    settings: RunSettings,
    own: MethodSettings,
    data: Mapping[str, Any],
    images: Tensor,
    labels: Tensor,
    keeper: State | None = None,
) -> Method:
    """The method on its engine, before the first task."""
    method = load_method(settings.method)
    ours = settings.method in METHODS and (own.backbone in BACKBONES or not method.uses_backbone)
    if ours and data["shape"][1] * data["shape"][2] > MOST_PIXELS:
        size = "{2:,} x {1:,}".format(*data["shape"])
        raise ValueError(f"images of {size} pixels are too large: the networks here take at most {MOST_PIXELS:,}")
    engine = Engine(
        images,
        labels,
        mean=data["mean"],
        std=data["std"],
        augmentation=Augmentation.parse(own.augment),
        first_augmentation=None if own.first_augment is None else Augmentation.parse(own.first_augment),
        seed=settings.seed,
        device=torch.device(settings.device),
        bf16=settings.precision == "bf16",
        graphs=settings.cuda_graphs,
        compile=settings.compile,
        flip_test=own.flip_test,
        shift_test=own.shift_test,
        keeper=keeper,
    )
    total = settings.memory_total if method.uses_memory else 0
    memory = ExemplarMemory(total, settings.memory_per_class if method.uses_memory else None)
    factory = backbone_factory(own.backbone if method.uses_backbone else "small", data["shape"][0])
    if method.uses_backbone and own.backbone not in BACKBONES:
        check_backbone(own.backbone, factory, data["shape"])
    return method(own, engine, memory, factory)


def concrete(settings: RunSettings) -> RunSettings:
    """The settings with what ``auto`` means here, so that a run goes on as it began."""
    there = torch.cuda.is_available()
    if settings.device == "cuda" and not there:
        raise ValueError("--device cuda: PyTorch sees no CUDA device here")
    device: Literal["cuda", "cpu"] = "cuda" if there and settings.device != "cpu" else "cpu"
    usual: Literal["bf16", "fp32"] = "bf16" if device == "cuda" else "fp32"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return replace(
        settings,
        device=device,
        precision=usual if settings.precision == "auto" else settings.precision,
        compile=settings.compile and device == "cuda" and bool(compiler) and find_spec("triton") is not None,
    )


def learn_task(method: Method, task: ClassTask) -> None:
    """One task from its beginning to its end: learn it, then remember some of it."""
    engine, memory = method.engine, method.memory
    engine.begin(task.index, task.seen)
    method.begin(task)
    method.learn(task)
    if method.uses_memory:
        labels = engine.labels.cpu()
        width = method.network.feature_size

        def images_of(label: int) -> tuple[Tensor, Tensor]:
            rows = (labels == label).nonzero()[:, 0]
            return rows, engine.features(method, rows, width).cpu()

        if engine.replaying:
            memory.rows += [[] for _ in task.labels]
        else:
            memory.add(task.labels, images_of)
    method.end(task)


def replay(method: Method, tasks: list[ClassTask]) -> None:
    """Build again what these tasks built, their training left out: afterwards only the numbers are missing."""
    method.engine.replaying = True
    for task in tasks:
        learn_task(method, task)
    method.engine.replaying = False


def parameters(method: Method) -> int:
    """All numbers that were learned and that predicting needs, frozen ones included."""
    return sum(p.numel() for p in method.needed())


def _correct(
    engine: Engine, method: Method, images: Tensor, labels: Tensor, seen: list[ClassTask], one_view: bool = False
) -> tuple[list[int], list[int]]:
    """Count the right test images of every task seen: among all classes seen, and among the task's own classes."""
    among_all, among_own = [], []
    for task in seen:
        rows = torch.from_numpy(task.test).to(engine.device)
        scores = engine.scores(method, images[rows], one_view=one_view)
        if not torch.isfinite(scores).all():
            raise FloatingPointError(
                f"after task {len(seen)} the network's scores are no numbers any more: "
                "a smaller --learning-rate or a longer --warmup may help"
            )
        among_all.append(int((scores.argmax(dim=1) == labels[rows]).sum()))
        own = scores[:, task.labels.start : task.labels.stop]
        among_own.append(int((own.argmax(dim=1) + task.labels.start == labels[rows]).sum()))
    return among_all, among_own


def _results(state: State, scenario: ClassScenario, folder: Path, digest: str) -> dict[str, Any]:
    totals = [len(task.test) for task in scenario[: len(state.correct)]]
    result = IncrementalResult(state.correct, totals)
    image_bytes = int(np.prod(scenario.images.train_images.shape[1:]))
    steps = state.steps
    seconds, images = sum(s["seconds"] for s in steps), sum(s["images"] for s in steps)
    training = sum(s["training_seconds"] for s in steps)
    results = {
        "settings": dict(state.record),
        "images_digest": digest,
        "tasks_done": len(state.correct),
        "tasks": len(scenario),
        "class_order": [scenario.images.names[c] for c in scenario.order],
        **result.to_dict(),
        **_more_figures(state.steps, totals),
        "parameters": steps[-1]["parameters"] if steps else 0,
        "parameters_per_step": [s["parameters"] for s in steps],
        "exemplars": steps[-1]["exemplars"] if steps else 0,
        "exemplar_bytes": (steps[-1]["exemplars"] if steps else 0) * image_bytes,
        "timing": {
            "seconds": seconds,
            "images_per_second": images / training if training else 0.0,
            "device": torch.cuda.get_device_name()
            if state.record["device"] == "cuda"
            else platform.processor() or "CPU",
            "torch": torch.__version__,
            "date": date.today().isoformat(),
            "per_step": [
                {"seconds": s["seconds"], "images_per_second": s["images"] / max(s["training_seconds"], 1e-9)}
                for s in steps
            ],
        },
    }
    names = scenario.images.names
    origin = scenario.images.positions
    kept = {
        names[scenario.order[label]]: rows if origin is None else origin[rows].tolist()
        for label, rows in enumerate(state.memory_rows)
    }
    for name, content in (("exemplars.json", kept), ("results.json", results)):
        write_whole(folder / name, (json.dumps(content, indent=1) + "\n").encode())
    return results


def _more_figures(steps: list[dict[str, Any]], totals: list[int]) -> dict[str, Any]:
    """The same figures with the task known, and from one view of an image where a run averages several.

    Steps that an earlier version learned do not have all counts; their run then has none of these figures.
    """
    figures = ("curve", "average_incremental_accuracy", "last_accuracy")
    wanted = {"known_task": ("known_task", ("accuracy_matrix", *figures)), "one_view": ("by_one_view", figures)}
    found = {}
    for name, (counts, kept) in wanted.items():
        if steps and all(counts in step for step in steps):
            result = IncrementalResult([step[counts] for step in steps], totals)
            found[name] = {figure: getattr(result, figure) for figure in kept}
    return found


@contextmanager
def claimed(folder: Path, record: Mapping[str, Any]) -> Iterator[None]:
    """Make the folder this run's, or see that it is; no other process may work in it meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    # In a stranger's folder the lock may be a link to a file elsewhere: it is neither followed nor emptied.
    with os.fdopen(
        os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "r+"
    ) as lock:
        _lock(lock, folder)
        file, text = folder / "settings.json", json.dumps(record, indent=1) + "\n"
        if has_checkpoints(folder) or (folder / "results.json").exists():  # else nothing is lost with other settings
            _compare_settings(file, json.loads(text))
        write_whole(file, text.encode())
        for left_over in folder.glob("*.partial"):
            name = left_over.name.removesuffix(".partial")
            if CHECKPOINT.fullmatch(name) or name in ("settings.json", "results.json", "exemplars.json", "model.pt2"):
                left_over.unlink()
        yield


def has_checkpoints(folder: Path) -> bool:
    """Whether there is anything to go on from; some of it may turn out to be broken."""
    return any(CHECKPOINT.fullmatch(path.name) for path in folder.iterdir())


def _ended_without_checkpoints(folder: Path) -> dict[str, Any] | None:
    """The figures of a run that has ended and whose checkpoints, which are large, were deleted; None for any other."""
    if any(path.name.startswith("checkpoint-") for path in folder.iterdir()):  # refused ones, too: they are made again
        return None
    try:
        results = checked_results(parse_json(read_whole(folder / "results.json", MOST_BYTES["results.json"])))
    except (OSError, ValueError):
        return None
    return results if results["tasks_done"] == results["tasks"] else None


def _lock(file: IO[str], folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however it ends
    except BlockingIOError:
        raise ValueError(f"another process is at work in {folder}") from None


def read_settings(file: Path) -> dict[str, Any]:
    """The record of a run's settings: plain values by name. The file may come from a stranger."""
    try:
        known = parse_json(read_whole(file, MOST_BYTES["settings.json"]))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read ({one_line(error)}): choose another run or another --out") from error
    good = isinstance(known, dict) and is_text(known.get("method"))
    if not good or not all(name.isidentifier() and is_setting(value) for name, value in known.items()):
        raise ValueError(f"{file} holds no settings of a run: choose another run or another --out")
    return cast("dict[str, Any]", known)


def _compare_settings(file: Path, now: Mapping[str, Any]) -> None:
    known = read_settings(file)
    for name in {**known, **now}:
        if known.get(name) != now.get(name):
            raise ValueError(
                f"{file.parent} holds a run with other settings ({name} is {known.get(name)!r:.200} there, "
                f"not {now.get(name)!r:.200}): choose another --out"
            )


def _normalisation(scenario: ClassScenario) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of the channels over the first task's images: nothing of later tasks is known then."""
    pixels = scenario.images.train_images[scenario[0].train] / 255.0
    mean, std = pixels.mean(axis=(0, 2, 3)), pixels.std(axis=(0, 2, 3))
    return tuple(mean.tolist()), tuple(np.maximum(std, 1e-3).tolist())


def _round(method: nn.Module) -> None:
    """Round all weights to bfloat16: what a resumed run will read is what this one goes on with."""
    with torch.no_grad():
        for tensor in cast(Mapping[str, Tensor], method.state_dict()).values():
            if tensor.dtype == torch.float32:
                tensor.copy_(tensor.to(torch.bfloat16))
