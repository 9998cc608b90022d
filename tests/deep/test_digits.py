"""What the methods are for, on scikit-learn's digits; benchmarks/digits.py has the whole protocol."""

from __future__ import annotations

from everspan.deep import resolve, run

FEW = {"data": "digits", "epochs": 20, "memory_total": 30, "device": "cpu", "threads": 1}  # three images a class


def test_what_is_done_against_forgetting_keeps_more_than_replay_and_replay_more_than_finetune(tmp_path):
    """With next to no memory, where the methods are far apart: by 17 points and more when this was written."""

    def average(method, **changes):
        settings = resolve({"method": method, **FEW, **changes})
        return run(*settings, tmp_path / method, every=1e9, note=lambda line: None)["average_incremental_accuracy"]

    replay = average("replay")
    assert replay > average("finetune") + 5.0
    found = {method: average(method) for method in ("icarl", "wa", "bic")}
    found["hlll"] = average("hlll", classifier_epochs=20)
    assert min(found.values()) > replay + 5.0, (replay, found)
