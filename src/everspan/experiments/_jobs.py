"""Many independent pieces of work, on one process or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def each(
    work: Callable[[Given], Made],
    pieces: Sequence[Given],
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Made]:
    """What becomes of every piece, in their order whatever the number of jobs; progress is told how many are done."""
    done: dict[int, Made] = {}

    def keep(place: int, made: Made) -> None:
        done[place] = made
        if progress is not None:
            progress(len(done), len(pieces))

    if jobs == 1:
        for place, piece in enumerate(pieces):
            keep(place, work(piece))
    else:
        with ProcessPoolExecutor(max_workers=jobs) as pool:
            try:
                waiting = {pool.submit(work, piece): place for place, piece in enumerate(pieces)}
                for future in as_completed(waiting):
                    keep(waiting[future], future.result())
            except KeyboardInterrupt:  # do not wait for the pieces that are left
                pool.shutdown(wait=False, cancel_futures=True)
                for process in active_children():
                    process.terminate()
                raise
    return [done[place] for place in range(len(pieces))]
