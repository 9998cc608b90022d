"""What a run has reached, in memory and in its checkpoints."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..metrics import MOST_TASKS
from ..scenarios._classes import checked_names
from ..untrusted import is_count, is_number, is_text, misfit
from .backbones import why
from .checkpoint import BadCheckpoint, read_checkpoint, write_checkpoint
from .engine import Engine, Place

Note = Callable[[str], None]
_ROUNDED = {torch.float32: (torch.bfloat16,)}  # what a checkpoint may hold in place of a kind of number
NOTHING_SPENT = {"seconds": 0.0, "images": 0, "training_seconds": 0.0}
MOMENTUM, STAGE = "@momentum.", "@stage"  # tensors of a checkpoint that are not the method's own
CHECKPOINT = re.compile(r"checkpoint-(\d{3,9})-(\d{2,9})-(\d{5,9})\.safetensors", re.ASCII)
SPENT = {"seconds": is_number, "images": is_count, "training_seconds": is_number}
FACTS: dict[str, Any] = {
    "place": {"task": is_count, "stage": is_count, "epoch": is_count},
    "data": {
        "digest": is_text,
        "names": [is_text],
        "sizes": [is_count],
        "shape": [is_count],
        "mean": [lambda value: is_number(value) and value < 1e6],
        "std": [lambda value: is_number(value) and 1e-6 < value < 1e6],
    },
    "correct": [[is_count]],
    "steps": [
        SPENT | {"parameters": is_count, "exemplars": is_count, "by_one_view?": [is_count], "known_task?": [is_count]}
    ],
    "spent": SPENT,
    "memory": [[is_count]],
}


def check_facts(facts: Any, record: Mapping[str, Any]) -> None:
    """Refuse facts of a checkpoint that no run writes; the file may come from a stranger."""
    if not isinstance(facts, dict) or facts.get("settings") != json.loads(json.dumps(record)):
        raise BadCheckpoint("it is of a run with other settings")
    odd = misfit(facts, FACTS)
    if odd:
        raise BadCheckpoint(f"{odd} is missing or not what a run writes")
    data, done, sizes = facts["data"], facts["place"]["task"], facts["data"]["sizes"]
    if len(sizes) > MOST_TASKS or 0 in sizes or sum(sizes) != len(data["names"]):
        raise BadCheckpoint(f"its {len(sizes):,} tasks do not share out {len(data['names']):,} classes")
    checked_names(data["names"], len(data["names"]))
    if not len(facts["correct"]) == len(facts["steps"]) == done <= len(sizes):
        raise BadCheckpoint(f"{done:,} tasks are done, but {len(facts['correct']):,} were judged")
    if any(len(row) != step + 1 for step, row in enumerate(facts["correct"])):
        raise BadCheckpoint("its counts of right images are not one more after every task")
    channels = data["shape"][0] if len(data["shape"]) == 3 else 0
    if channels not in (1, 3) or min(data["shape"]) < 1 or not len(data["mean"]) == len(data["std"]) == channels:
        raise BadCheckpoint("its images have no shape of (1 or 3 channels, height, width)")


class State:
    """What a run has reached, and its checkpoints."""

    def __init__(self, folder: Path, record: Mapping[str, Any], every: float = 0.0, note: Note = print) -> None:
        self.folder, self.record, self.every, self.note = folder, record, every, note
        self.data: dict[str, Any] = {}  # what the model must know of its data
        self.place = Place(0)
        self.correct: list[list[int]] = []
        self.steps: list[dict[str, Any]] = []  # of every task done: seconds, images, parameters, what one view gives
        self.spent: dict[str, Any] = dict(NOTHING_SPENT)  # on the task under way, before the stop
        self.memory_rows: list[list[int]] = []
        self.tensors: dict[str, Tensor] = {}
        self.stage_ends: list[dict[str, Tensor]] = []  # weights at the end of every stage of the task under way
        self.engine: Engine | None = None
        self.saved = self.started = time.perf_counter()

    # Reading ----------------------------------------------------------------------------------------------------------

    def files(self) -> list[Path]:
        """Checkpoints, newest first."""
        found = ((CHECKPOINT.fullmatch(path.name), path) for path in self.folder.iterdir())
        places = {path: tuple(map(int, match.groups())) for match, path in found if match}
        return sorted(places, key=places.__getitem__, reverse=True)

    def find(self, put_aside: bool = False) -> bool:
        """Take up the newest checkpoint that is whole; False where there is none.

        With ``put_aside``, those that are refused get another name, so that they are not in the way of new ones.
        """
        for file in self.files():
            try:
                tensors, facts = read_checkpoint(file)
                try:
                    check_facts(facts, self.record)
                except ValueError as error:
                    raise BadCheckpoint(f"{file.name} is no checkpoint of this run: {error}") from error
            except BadCheckpoint as error:
                self.note(f"refused: {error}; looking for the one before")
                if put_aside:
                    file.rename(file.with_name(file.name + ".refused"))
                continue
            self.tensors, self.place, self.data = tensors, Place(**facts["place"]), facts["data"]
            self.correct, self.steps, self.spent = facts["correct"], facts["steps"], facts["spent"]
            self.memory_rows = facts["memory"]
            return True
        return False

    def load(self, method: nn.Module, changes: Mapping[str, Tensor] | None = None) -> None:
        """Fill in the weights; with ``changes``, those of an earlier stage, which may lack what came later."""
        state = {name: t for name, t in self.tensors.items() if not name.startswith("@")}
        if changes is not None:
            state = {name: t for name, t in {**state, **changes}.items() if name in method.state_dict()}
        try:
            for name, there in method.state_dict().items():
                if name in state and state[name].dtype not in (there.dtype, *_ROUNDED.get(there.dtype, ())):
                    raise TypeError(f"{name} is {state[name].dtype}, not {there.dtype}")
            method.load_state_dict(state, strict=True)
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                f"the checkpoint in {self.folder} does not fit the method: was its code changed since? ({why(error)})"
            ) from error

    # The engine's Keeper ----------------------------------------------------------------------------------------------

    def restore(self, place: Place, method: nn.Module) -> int | None:
        if place.task != self.place.task or (self.place.stage, self.place.epoch) == (0, 0):
            return 0
        if place.stage != self.place.stage:
            return None if place.stage < self.place.stage else 0
        self.load(method)
        return self.place.epoch

    def restore_momentum(self, place: Place, momentum: list[Tensor]) -> None:
        if (place.task, place.stage) == (self.place.task, self.place.stage) and self.place.epoch:
            for i, tensor in enumerate(momentum):
                saved = self.tensors.get(f"{MOMENTUM}{i}")
                if saved is None or saved.shape != tensor.shape or saved.dtype != tensor.dtype:
                    raise ValueError(f"the checkpoint in {self.folder} does not fit the method: its momentum differs")
                tensor.copy_(saved)

    def save(self, place: Place, method: nn.Module, momentum: list[Tensor]) -> None:
        if time.perf_counter() - self.saved >= self.every:
            spent = self.so_far()
            self.write(place, method, {f"{MOMENTUM}{i}": tensor for i, tensor in enumerate(momentum)}, spent=spent)

    def stage_ended(self, place: Place, method: nn.Module) -> None:
        if place.stage == 0:
            self.stage_ends = []
        if place.task == self.place.task and place.stage < self.place.stage:  # it was over before the stop
            before = f"{STAGE}{place.stage}."
            kept = {n.removeprefix(before): t for n, t in self.tensors.items() if n.startswith(before)}
            self.load(method, kept)
        self.stage_ends.append({name: tensor.detach().clone() for name, tensor in method.state_dict().items()})

    def so_far(self) -> dict[str, Any]:
        """What the task under way has cost, stops included."""
        assert self.engine is not None
        return {
            "seconds": self.spent["seconds"] + time.perf_counter() - self.started,
            "images": self.spent["images"] + self.engine.trained_images,
            "training_seconds": self.spent["training_seconds"] + self.engine.training_seconds,
        }

    def write(
        self, place: Place, method: nn.Module, more: Mapping[str, Tensor], spent: Mapping[str, Any] | None = None
    ) -> None:
        facts = {
            "settings": self.record,
            "data": self.data,
            "place": asdict(place),
            "correct": self.correct,
            "steps": self.steps,
            "spent": spent or NOTHING_SPENT,
            "memory": self.memory_rows,
        }
        own = method.state_dict()
        tensors = {**own, **more}
        for stage, end in enumerate(self.stage_ends[: place.stage]):  # where they differ from what they are now
            changed = {n: t for n, t in end.items() if n not in own or not torch.equal(own[n], t)}
            tensors |= {f"{STAGE}{stage}.{name}": tensor for name, tensor in changed.items()}
        if self.record["checkpoint_precision"] == "bf16" and not more:  # the end of a task: they are rounded already
            tensors = {name: t.to(torch.bfloat16) if t.dtype == torch.float32 else t for name, t in tensors.items()}
        name = f"checkpoint-{place.task:03d}-{place.stage:02d}-{place.epoch:05d}.safetensors"
        write_checkpoint(self.folder / name, tensors, facts)
        for old in self.files()[2:]:
            old.unlink()
        self.saved = time.perf_counter()
