"""Care of a file: checked, compacted, backed up while others write; and what forgetting takes out of it."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from everspan import LifelongClassifier
from everspan.one_file import _learning, check, compact, export, forget, learn, open_model, preparation_of, rebuild
from everspan.store import StaleError, StoreError, _writing
from everspan.tables import TableError

from ..estimators.test_saving import with_fact
from ..hot_journals import copy_of_a_killed
from .faults import state
from .fuzzing import run
from .killing import LEARN
from .test_one_file import shops


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A file of ten tasks, of which one has a text that no other has, and its table."""
    folder = tmp_path_factory.mktemp("kept")
    table = shops(10, 20)
    table.loc[table["shop"] == "s3", "city"] = table["city"].where(table.index % 3 > 0, "Xanadu")
    table.to_csv(folder / "a.csv", index=False)
    learn(folder / "a.everspan", folder / "a.csv")
    return folder


@pytest.fixture
def path(kept, tmp_path):
    for file in kept.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / "a.everspan"


def edited(path, statement):
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


# Checking -------------------------------------------------------------------------------------------------------------


def test_a_sound_file_is_sound(path):
    before = path.read_bytes()
    assert check(path).rows["tasks"] == 10
    code, said, _ = run("check", path)
    assert code == 0
    assert "sound: " in said
    assert json.loads(run("check", path, "--json")[1])["problems"] == []
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tasks SET labels_used = labels_used + 1000000 WHERE position = 3",
        "UPDATE predictors SET intercept = 0.5 WHERE task = 4",
        "UPDATE arrays SET data = zeroblob(length(data))",
        "UPDATE about SET value = '7' WHERE key = 'tasks'",
        "DELETE FROM predictors WHERE task = 5",
        "DELETE FROM tasks WHERE position = 9",
        "DELETE FROM arrays WHERE name LIKE 'basis/%'",
        "INSERT INTO predictors SELECT 77, place, version, feature, coefficients, intercept, reference, plausible, "
        "summary, doubt, foreseen, checksum FROM predictors WHERE task = 1",
    ],
)
def test_check_finds_what_is_wrong_in_one_line_and_says_so_by_its_exit_code(path, statement):
    edited(path, statement)
    code, said, errors = run("check", path)
    assert (code, errors) == (1, "")
    assert said.count("\n") >= 1
    assert "Traceback" not in said


def test_check_finds_damage_to_sqlite_s_own_structure(path):
    data = bytearray(path.read_bytes())
    data[4096 + 3 : 4096 + 5] = b"\xff\xff"  # the number of cells of a page
    path.write_bytes(data)
    code, said, errors = run("check", path)
    assert code in (1, 2), "found while it is read, or when it is opened"
    assert (said + errors).count("\n") >= 1
    assert "Traceback" not in said + errors


def test_check_does_not_call_a_file_bad_that_others_use(path, monkeypatch):
    from everspan.store import _connection

    monkeypatch.setattr(_connection, "_TIMEOUT", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    code, said, errors = run("check", path)
    holder.close()
    assert (code, said) == (2, "")
    assert "is in use by another process" in errors


def test_show_says_nothing_of_an_edited_row(path):
    """It used to print "1,000,846 labels" with exit code 0."""
    edited(path, "UPDATE tasks SET labels_used = labels_used + 1000000 WHERE position = 3")
    for options in ((), ("--tasks",), ("--task", name_at(path, 3)), ("--json",)):
        code, said, errors = run("show", path, *options)
        assert (code, said) == (2, ""), options
        assert "a checksum of table tasks is wrong" in errors


def name_at(path, position):
    with sqlite3.connect(path) as connection:
        (name,) = connection.execute("SELECT name FROM tasks WHERE position = ?", (position,)).fetchone()
    connection.close()
    return json.loads(name)


def test_show_says_nothing_of_an_edited_fact(path):
    edited(path, "UPDATE about SET value = '1000' WHERE key = 'columns'")
    code, said, errors = run("show", path)
    assert (code, said) == (2, "")
    assert "a checksum of table about is wrong" in errors


# Compacting and backing up --------------------------------------------------------------------------------------------


def test_compact_makes_a_file_smaller_and_changes_nothing_else(path):
    forget(path, [f"s{i}" for i in range(2, 10)])
    model, leftover = open_model(path), path.with_name(f".{path.name}.0123.part")
    leftover.write_bytes(b"of a process that was stopped")
    before, size = state(path), path.stat().st_size
    assert compact(path) == (size, path.stat().st_size)
    assert path.stat().st_size < size
    assert not leftover.exists()
    assert state(path) == before
    model.learn_task(np.eye(model.n_features_in_), np.array(["no", "yes"] * 4)[: model.n_features_in_], task="later")
    model.save(path)  # who knows the file knows it still


def test_backups_while_another_process_learns_are_each_a_whole_state(tmp_path):
    path = tmp_path / "a.everspan"
    shops(60, 20).to_csv(tmp_path / "a.csv", index=False)
    shops(3, 20).to_csv(tmp_path / "first.csv", index=False)
    learn(path, tmp_path / "first.csv")
    counts = []
    with subprocess.Popen([sys.executable, "-c", LEARN, str(path), str(tmp_path / "a.csv")]) as writer:
        for number in itertools.count():
            out = tmp_path / f"{number}.everspan"
            assert run("backup", path, out)[0] == 0
            assert not check(out).problems
            counts.append(check(out).rows["tasks"])
            if writer.poll() is not None:
                break
    assert writer.returncode == 0
    assert counts == sorted(counts)
    assert any(3 < count < 60 for count in counts), "some backups were taken while it learned"
    assert check(path).rows["tasks"] == 60


def test_a_backup_does_not_take_the_journal_of_what_it_may_not_overwrite(path, tmp_path):
    """The other file needs it to heal."""
    other = tmp_path / "other.everspan"
    copy_of_a_killed(path, other)
    assert run("backup", path, other)[0] == 2
    assert state(other) == state(path)


def test_a_backup_keeps_the_permissions(path, tmp_path):
    path.chmod(0o600)
    assert run("backup", path, tmp_path / "b.everspan")[0] == 0
    assert (tmp_path / "b.everspan").stat().st_mode & 0o777 == 0o600


def test_a_backup_overwrites_nothing(path, tmp_path):
    out = tmp_path / "b.everspan"
    out.write_text("precious")
    code, _, errors = run("backup", path, out)
    assert code == 2
    assert "is there already" in errors
    assert out.read_text() == "precious"
    assert run("backup", path, tmp_path / "nowhere" / "b.everspan")[0] == 2


# Forgetting -----------------------------------------------------------------------------------------------------------


def test_nothing_of_a_forgotten_task_is_in_the_file_or_in_exports(path, tmp_path):
    """Its texts used to stay in the preparation, and its rows in pages that SQLite had freed."""
    assert b"Xanadu" in path.read_bytes()
    digests, fresh = open_model(path)._seen["s3"], sqlite3.connect(path)
    row = fresh.execute("SELECT seen FROM tasks WHERE name = '\"s3\"'").fetchone()[0]
    fresh.close()
    assert row == digests
    done = forget(path, ["s3"])
    data = path.read_bytes()
    assert b"Xanadu" not in data
    assert b'"s3"' not in data
    assert digests not in data
    for name in ("one.json", "all.parquet"):
        out = tmp_path / name
        export(path, out, "s1" if name == "one.json" else None)
        assert b"Xanadu" not in out.read_bytes()
    assert "Xanadu" not in json.dumps(done.model.table_)
    assert not check(path).problems
    assert any("--rebuild" in note for note in done.notes), "what cannot be removed is said, and how it can"


def test_texts_that_other_tasks_have_stay(path):
    forget(path, ["s3", "s4"])
    kept = [value for column in open_model(path).table_["columns"] for value in column.get("values", [])]
    assert set(kept) == {None, "a", "b"}


def test_other_tasks_answer_as_before_and_new_rows_are_learned_after_a_text_was_forgotten(path, tmp_path):
    before = open_model(path)
    forget(path, ["s3"])
    after, X = open_model(path), np.random.default_rng(0).standard_normal((9, before.n_features_in_))
    for task in after.tasks_:
        assert after.predict(X, task=task).shape == (9,)
    table = shops(12, 8, seed=5)
    table.loc[0, "city"] = "Xanadu"
    table.to_csv(tmp_path / "b.csv", index=False)
    assert not learn(path, tmp_path / "b.csv").failed
    assert b"Xanadu" not in path.read_bytes(), "who was forgotten does not come back by somebody else's row"


def test_a_rebuilt_file_is_that_of_a_table_without_the_task(path, kept, tmp_path):
    table = kept / "a.csv"
    rows = table.read_text().splitlines(keepends=True)
    (tmp_path / "without.csv").write_text("".join(row for row in rows if ",s3," not in row))
    learn(tmp_path / "never.everspan", tmp_path / "without.csv")
    done = rebuild(path, ["s3"], [table])
    assert done.notes == []
    assert state(path) == state(tmp_path / "never.everspan")


def test_a_rebuild_that_would_lose_tasks_changes_nothing(path, tmp_path):
    shops(6, 20).to_csv(tmp_path / "some.csv", index=False)
    before = path.read_bytes()
    with pytest.raises(TableError, match="no rows of 4 other tasks, such as"):
        rebuild(path, ["s3"], [tmp_path / "some.csv"])
    assert path.read_bytes() == before
    code, said, errors = run("forget", path, "s3", "--rebuild", tmp_path / "a.csv", "--quiet")
    assert (code, errors) == (0, "")
    assert "9 tasks" in said


def test_a_file_of_format_1_says_that_it_does_not_know_whose_texts_are_whose(tmp_path):
    from .test_format import HERE

    path = tmp_path / "a.everspan"
    shutil.copy(HERE / "format-1.everspan", path)
    shops(4, 6, seed=5).to_csv(tmp_path / "a.csv", index=False)
    learn(path, tmp_path / "a.csv")  # now four tasks' texts are known, and those of the others are not
    before = preparation_of(open_model(path))
    assert any("texts of text columns stay" in note for note in forget(path, ["s3"]).notes)
    assert preparation_of(open_model(path)) == before, "texts of other tasks were erased, and their answers changed"


def test_texts_of_tasks_that_python_learned_are_not_erased(path):
    """`learn_task` does not know of texts: then every text stays."""
    model = open_model(path)
    X = np.zeros((6, model.n_features_in_))
    X[:, 4:6] = np.tile([[1.0, 0.0], [0.0, 1.0]], (3, 1))
    model.learn_task(X, np.array(["no", "yes"] * 3), task="s1")
    model.save(path)
    assert any("texts of text columns stay" in note for note in forget(path, ["s3"]).notes)
    assert b"Xanadu" in path.read_bytes()


@pytest.mark.parametrize("how", ["replaced", "removed"])
@pytest.mark.parametrize("command", [forget, rebuild])
def test_forget_does_not_write_over_a_file_that_was_put_in_its_place(path, tmp_path, monkeypatch, how, command):
    from everspan.one_file import _forgetting

    shops(12, 20, seed=3).to_csv(tmp_path / "other.csv", index=False)
    learn(tmp_path / "other.everspan", tmp_path / "other.csv")
    expected, name = state(tmp_path / "other.everspan"), f"_{command.__name__}"
    change = getattr(_forgetting, name)

    def changed(target, model, *given):
        if how == "replaced" and (tmp_path / "other.everspan").exists():
            (tmp_path / "other.everspan").replace(path)
        elif how == "removed":
            path.unlink()
        return change(target, model, *given)

    monkeypatch.setattr(_forgetting, name, changed)
    with pytest.raises(StoreError, match=r"another file was put in its place|there is no such file"):
        command(path, ["s3"], *([[tmp_path / "a.csv"]] if command is rebuild else []))
    assert not path.exists() if how == "removed" else state(path) == expected


def test_forget_tries_again_when_another_process_learns_meanwhile(path, tmp_path, monkeypatch):
    from everspan.one_file import _forgetting

    shops(12, 5, seed=3).to_csv(tmp_path / "more.csv", index=False)
    change, learned = _forgetting._forget, []

    def changed(target, model, tasks):
        if not learned:
            learned.append(learn(path, tmp_path / "more.csv"))
        return change(target, model, tasks)

    monkeypatch.setattr(_forgetting, "_forget", changed)
    forget(path, ["s3"])
    assert sorted(open_model(path).tasks_) == sorted(f"s{i}" for i in range(12) if i != 3)


def test_rebuild_refuses_a_name_that_nobody_knows_and_takes_one_that_was_forgotten(path, tmp_path):
    before = path.read_bytes()
    with pytest.raises(StoreError, match="'typo' is neither in the file nor in the tables"):
        rebuild(path, ["typo"], [tmp_path / "a.csv"])
    assert path.read_bytes() == before
    forget(path, ["s3"])
    assert rebuild(path, ["s3"], [tmp_path / "a.csv"]).count == 1
    assert b"Xanadu" not in path.read_bytes()


# Time and memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seconds_a_task",
    [lambda _: 0.02, lambda _: 0.7, lambda _: 4.0, lambda place: 0.001 if place < 25 else 2.4],
    ids=["quick", "slow", "very slow", "slow in the end"],
)
def test_the_first_tasks_are_committed_within_five_seconds_and_others_every_five(tmp_path, monkeypatch, seconds_a_task):
    """By a clock that goes on while tasks are learned, and at no other moment."""
    shops(40, 6).to_csv(tmp_path / "a.csv", index=False)
    now, commits = [0.0], []
    learn_one, commit = LifelongClassifier._learn_rows, _learning.Work._note

    def slow(model, *given):
        now[0] += seconds_a_task(len(getattr(model, "history_", ())))
        return learn_one(model, *given)

    def noted(work, *given):
        commit(work, *given)
        commits.append(now[0])

    monkeypatch.setattr(_learning.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(LifelongClassifier, "_learn_rows", slow)
    monkeypatch.setattr(_learning.Work, "_note", noted)
    learn(tmp_path / "a.everspan", tmp_path / "a.csv")
    assert now[0] >= 0.9 * sum(map(seconds_a_task, range(40))), "tasks were learned one by one"
    assert np.diff([0.0, *commits]).max() <= 5.0
    assert commits[-1] == now[0]


def test_tasks_that_wait_take_no_more_bytes_than_there_is_room_for():
    def tasks(count, rows):
        for task in range(count):
            yield str(task), np.zeros((rows, 50)), np.zeros(rows)

    work = functools.partial(_learning.Work, None, None, None, None)
    for count, rows in ((120, 10_000), (20_000, 3)):
        given = list(work(memory=50_000_000)._waiting(tasks(count, rows)))
        held = [sum(X.nbytes + y.nbytes for _, X, y in waiting) for waiting in given]
        assert max(held) <= 50_000_000 / 8 + rows * 51 * 8
        assert sum(map(len, given)) == count


@pytest.mark.parametrize("how", ["removed", "replaced", "replaced by an older one"])
def test_what_learn_says_it_learned_is_on_disk_even_if_its_file_is_taken_away(tmp_path, monkeypatch, how):
    """It used to end with "learned 900 tasks" and exit code 0, and nothing was on disk."""
    path, other, commits = tmp_path / "a.everspan", tmp_path / "other.everspan", []
    shops(12, 20).to_csv(tmp_path / "a.csv", index=False)
    shops(3, 20).to_csv(tmp_path / "other.csv", index=False)
    learn(other, tmp_path / "other.csv")
    commit = _learning.Work._note

    def noted(work, *given):
        commit(work, *given)
        commits.append(1)
        if len(commits) == 1 and how == "replaced by an older one":
            shutil.copy(path, other)
        if len(commits) == 4:
            if how == "removed":
                other.unlink()
            path.unlink()
            if other.exists():
                other.replace(path)

    monkeypatch.setattr(_learning, "_COMMIT_AFTER", 0.0)
    monkeypatch.setattr(_learning.Work, "_note", noted)
    code, said, errors = run("learn", path, tmp_path / "a.csv", "--quiet")
    if how == "removed":
        assert (code, said) == (2, "")
        assert errors.count("\n") == 1
    else:
        assert code == 0, errors
        assert check(path).rows["tasks"] == 12


def test_a_model_that_reads_lazily_notices_that_its_file_was_replaced(tmp_path, monkeypatch):
    """Two files built alike have as many changes: their tasks used to be mixed into one answer."""
    from everspan.estimators import _filed

    monkeypatch.setattr(_filed, "EAGER", 3)
    for name, seed in (("a", 0), ("b", 1)):
        shops(9, 20, seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
        learn(tmp_path / f"{name}.everspan", tmp_path / f"{name}.csv")
    path, X = tmp_path / "a.everspan", np.random.default_rng(0).standard_normal((5, 6))
    model, whole = open_model(path), open_model(path)
    whole.history_  # noqa: B018  reads all tasks
    expected = whole.decision_function(X, task="s1")
    np.testing.assert_array_equal(model.decision_function(X, task="s1"), expected)
    (tmp_path / "b.everspan").replace(path)
    for task in ("s2", "s5", "s8"):
        with pytest.raises(StaleError, match="another process has changed it"):
            model.decision_function(X, task=task)
    with pytest.raises(StaleError):
        len(model.history_)
    with pytest.raises(StaleError):
        model.save(path)


def test_predictions_of_two_files_are_not_mixed_into_one_answer(tmp_path, monkeypatch):
    from everspan.estimators import _filed
    from everspan.one_file import _predicting

    monkeypatch.setattr(_filed, "EAGER", 3)
    for name in ("a", "b"):
        shops(9, 20, seed=ord(name)).to_csv(tmp_path / f"{name}.csv", index=False)
        learn(tmp_path / f"{name}.everspan", tmp_path / f"{name}.csv")
    path, out, answered = tmp_path / "a.everspan", tmp_path / "out.csv", _predicting._Asker.answers

    def answers(asker, batch, kept):
        (tmp_path / "b.everspan").replace(path)  # after the file was opened, before its tasks are read
        return answered(asker, batch, kept)

    monkeypatch.setattr(_predicting._Asker, "answers", answers)
    code, _, errors = run("predict", path, tmp_path / "a.csv", "--out", out)
    assert code == 2
    assert "another file was put in its place" in errors
    assert not out.exists()


def test_a_backup_to_a_full_disk_does_not_blame_the_file(path):
    code, _, errors = run("backup", path, "/dev/full/x")
    assert code == 2
    assert "there is no folder /dev/full" in errors
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = 13
    failing = type("Failing", (), {"backup": lambda self, copy: (_ for _ in ()).throw(error)})()
    with pytest.raises(StoreError, match="copy: cannot be written: database or disk is full"):
        _writing._copy(failing, None, "copy")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("identity", [1]),
        ("state", 7),
        ("change", -5),
        ("tasks", 10.0),
        ("label_sets", [{"dtype": "<U3", "labels": ['"no"', '"no"']}]),
    ],
)
def test_check_looks_at_facts_whose_checksums_were_mended(path, key, value):
    with_fact(path, key, lambda _: value)
    code, said, errors = run("check", path)
    assert code in (1, 2), said
    assert "Traceback" not in said + errors


def test_an_error_is_one_line_whatever_the_file_is_called(tmp_path):
    code, _, errors = run("show", tmp_path / "two\nlines.everspan")
    assert code == 2
    assert errors.count("\n") == 1


def test_a_file_that_is_locked_is_not_called_damaged(path, monkeypatch):
    from everspan.store import _connection

    monkeypatch.setattr(_connection, "_TIMEOUT", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="is in use by another process: try again"):
        open_model(path)
    holder.close()


def test_names_that_sqlite_would_take_for_something_else_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shops(2, 20).to_csv("a.csv", index=False)
    for name in (":memory:", "file:x?mode=memory", "a b%20#?.everspan"):
        learn(name, "a.csv")
        assert (tmp_path / name).is_file()
        assert check(name).rows["tasks"] == 2
    loop = tmp_path / "loop.everspan"
    loop.symlink_to(loop)
    code, _, errors = run("show", loop)
    assert code == 2
    assert errors.count("\n") == 1
