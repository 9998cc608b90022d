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

from .checkpoint import BadCheckpoint, read_checkpoint, write_checkpoint
from .engine import Engine, Place

Note = Callable[[str], None]
NOTHING_SPENT = {"seconds": 0.0, "images": 0, "training_seconds": 0.0}
MOMENTUM, STAGE = "@momentum.", "@stage"  # tensors of a checkpoint that are not the method's own
CHECKPOINT = re.compile(r"checkpoint-(\d{3,})-(\d{2,})-(\d{5,})\.safetensors")


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
                if facts["settings"] != json.loads(json.dumps(self.record)):
                    raise BadCheckpoint(f"{file.name} is of a run with other settings")
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
            method.load_state_dict(state, strict=True)
        except RuntimeError as error:
            why = " ".join(str(error).split())
            raise ValueError(
                f"the checkpoint in {self.folder} does not fit the method: was its code changed since? ({why})"
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
                tensor.copy_(self.tensors[f"{MOMENTUM}{i}"])

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
