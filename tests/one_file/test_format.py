"""Files of earlier versions are read for ever: one of every format is kept here, with what it answers.

Written by the version that introduced the format, with ``python -m tests.one_file.test_format``; never again. Format 2
joins them with release 0.1; until then it may change.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from everspan.one_file import check, learn, open_model, overview, preparation_of, tasks_of
from everspan.store import APPLICATION, FORMAT, StoreError

from .test_one_file import shops

HERE = Path(__file__).parent / "formats"


def answers(model):
    X = np.random.default_rng(3).standard_normal((5, model.n_features_in_))
    return {task: model.decision_function(X, task=task).tolist() for task in model.tasks_}


def make(folder=HERE, number=FORMAT):
    """A file with all that a format has: features, updates, a prior, a table, rows seen."""
    folder.mkdir(exist_ok=True)
    table, path = folder / "table.csv", folder / f"format-{number}.everspan"
    shops(12, 30).to_csv(table, index=False)
    learn(path, table)
    shops(14, 6, seed=7).to_csv(table, index=False)
    learn(path, table)
    table.unlink()
    path.with_suffix(".json").write_text(json.dumps(answers(open_model(path)), indent=1) + "\n")


def format_now(path):
    return int.from_bytes(path.read_bytes()[60:64], "big")


@pytest.mark.parametrize("number", range(1, FORMAT))
def test_a_file_of_every_format_answers_as_it_did_and_learns_on(tmp_path, number):
    kept = HERE / f"format-{number}.everspan"
    path = tmp_path / "a.everspan"
    shutil.copy(kept, path)
    model = open_model(path)
    expected = json.loads(kept.with_suffix(".json").read_text())
    assert list(answers(model)) == list(expected)
    for task, values in answers(model).items():
        np.testing.assert_allclose(values, expected[task], rtol=1e-9, atol=1e-9)
    assert {event.action for event in model.history_} == {"reused", "updated"}
    assert len(model.representation_.features) > 1
    assert model.prior_ is not None
    assert overview(path)["tasks"] == 14
    assert number == format_now(path), "who reads changes nothing"
    shops(12, 30).to_csv(tmp_path / "a.csv", index=False)
    assert learn(path, tmp_path / "a.csv").known == 12, "rows that were learned then are known now"
    assert number == format_now(path)
    shops(16, 10, seed=9).to_csv(tmp_path / "b.csv", index=False)
    assert len(learn(path, tmp_path / "b.csv").events) == 16
    assert format_now(path) == FORMAT
    assert not check(path).problems
    assert len(list(tasks_of(tmp_path / "b.csv", preparation_of(open_model(path))))) == 16


def test_a_newer_format_is_said(tmp_path):
    path = tmp_path / "a.everspan"
    shutil.copy(HERE / "format-1.everspan", path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(
        StoreError, match=rf"has format {FORMAT + 1}, and this everspan reads up to {FORMAT}: get a newer"
    ):
        open_model(path)
    assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION


if __name__ == "__main__":
    make()
