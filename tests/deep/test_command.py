"""The command line of class-incremental runs, from end to end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from everspan import deep
from everspan.cli import main
from everspan.deep import IncrementalModel, checkpoint, command
from everspan.deep.engine import Place
from everspan.deep.methods import MethodSettings
from everspan.deep.settings import parse_setting, resolve
from everspan.scenarios import load_images

QUICK = ["--epochs", "1", "--backbone", "tests.deep._common:Tiny", "--device", "cpu", "--jobs", "1"]


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory):
    """A whole run on digits, short but real, with its exported model."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    arguments = ["incremental", "--data", "digits", "--method", "replay", "--epochs", "3", "--jobs", "1"]
    assert main([*arguments, "--out", str(folder)]) == 0
    return folder


def test_a_run_writes_what_it_says(digits_run):
    names = {path.name for path in digits_run.iterdir()}
    assert {"settings.json", "results.json", "model.pt2"} <= names
    results = json.loads((digits_run / "results.json").read_text())
    assert results["tasks_done"] == 5
    assert results["settings"]["method"] == "replay"
    assert results["settings"]["memory_total"] == 100
    assert len(list(digits_run.glob("checkpoint-*"))) == 2


def test_the_model_predicts_what_the_run_measured(digits_run):
    images = load_images("digits")
    model = IncrementalModel.load(digits_run)
    pixels = np.moveaxis(images.test_images, 1, -1)
    guesses = np.array(model.predict(pixels))
    results = json.loads((digits_run / "results.json").read_text())
    assert 100.0 * np.mean(guesses == images.test_labels.astype(str)) == pytest.approx(results["last_accuracy"])
    probabilities = model.predict_proba(pixels)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    with pytest.raises(ValueError, match="bytes of shape"):
        model.predict(pixels[:, :5])


def test_the_exported_model_needs_nothing_of_ours_and_agrees(digits_run, tmp_path):
    images = load_images("digits").test_images[:7]
    np.save(tmp_path / "images.npy", images)
    script = (
        "import sys, numpy, torch; program = torch.export.load(sys.argv[1]).module();"
        "out = program(torch.from_numpy(numpy.load(sys.argv[2]))).detach().numpy();"
        "assert not any(name.startswith('everspan') for name in sys.modules); numpy.save(sys.argv[3], out)"
    )
    paths = [digits_run / "model.pt2", tmp_path / "images.npy", tmp_path / "out.npy"]
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, *map(str, paths)], check=True)
    expected = IncrementalModel.load(digits_run).predict_proba(np.moveaxis(images, 1, -1))
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)


def test_what_only_learning_needs_is_neither_counted_nor_exported(tmp_path):
    folder = tmp_path / "run"
    arguments = ["incremental", "--recipe", "best", *QUICK, "--out", str(folder)]
    assert main(arguments) == 0
    results = json.loads((folder / "results.json").read_text())
    assert results["parameters"] == 5 * (9 * 8 + 8) + (40 + 1) * 10  # folded encoders and the classifier
    names = torch.export.load(folder / "model.pt2").state_dict
    assert not any("scaffold" in name for name in names)
    assert any("encoders.4" in name for name in names)


def test_pictures_are_predicted_from_the_command_line(digits_run, tmp_path, capsys):
    images = load_images("digits")
    path = tmp_path / "seven.png"
    Image.fromarray(images.test_images[0, 0]).save(path)
    assert main(["predict", str(digits_run), str(path)]) == 0
    name, label, probability = capsys.readouterr().out.strip().split("\t")
    assert name == str(path)
    assert label in images.names
    assert 0.0 < float(probability) <= 1.0
    assert main(["predict", str(digits_run), str(path), "--out", str(tmp_path / "a.csv")]) == 0
    assert (tmp_path / "a.csv").read_text().splitlines() == [
        "picture,class,probability",
        f"{path},{label},{probability}",
    ]
    assert main(["predict", str(digits_run), str(path), "--keep", "x"]) == 2
    assert "go with a table" in capsys.readouterr().err


@pytest.mark.parametrize("saved", [False, True])
def test_a_stop_says_what_is_left_of_the_run(tmp_path, capsys, monkeypatch, saved):
    def stopped(settings, own, out, **others):
        if saved:
            out.mkdir()
            (out / "checkpoint-001-00-00003.safetensors").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", stopped)
    assert main(["incremental", *QUICK, "--out", str(tmp_path / "run")]) == 130
    left = "the same command goes on from the last checkpoint" if saved else "nothing was saved yet"
    assert capsys.readouterr().err == f"\neverspan incremental: stopped; {left}\n"


def test_help_names_the_recipes_of_the_method(capsys):
    with pytest.raises(SystemExit):
        main(["incremental", "--method", "rpsnet", "--help"])
    assert "named hyper-parameters of the method: paper, short, strong" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("method", ["icarl", "bic", "rpsnet"])
def test_the_exported_model_looks_at_the_same_views(tmp_path, method):
    flags = ["--method", method, *QUICK, "--flip-test", "yes", "--shift-test", "1", "--out", str(tmp_path)]
    assert main(["incremental", *flags]) == 0
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), dtype=np.uint8)
    program = torch.export.load(tmp_path / "model.pt2").module()
    found = program(torch.from_numpy(np.moveaxis(images, -1, 1).copy())).detach()
    wanted = IncrementalModel.load(tmp_path, allow_code=True).predict_proba(images)
    torch.testing.assert_close(found, torch.from_numpy(wanted), rtol=1e-4, atol=1e-5)


def test_a_network_that_cannot_be_exported_is_a_network_all_the_same(tmp_path, capsys):
    flags = ["--epochs", "1", "--backbone", "tests.deep._common:Odd", "--device", "cpu", "--jobs", "1"]
    assert main(["incremental", "--method", "finetune", *flags, "--out", str(tmp_path / "run")]) == 0
    assert "model.pt2 was not written" in capsys.readouterr().err
    assert IncrementalModel.load(tmp_path / "run", allow_code=True).names


def test_the_exported_model_is_whole_or_as_it_was(digits_run, tmp_path, monkeypatch):
    model, path = IncrementalModel.load(digits_run), tmp_path / "model.pt2"
    model.export(path)
    before = path.read_bytes()
    write = checkpoint._write_all

    def full_disk(file, block):
        write(file, block[: len(block) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_write_all", full_disk)
    with pytest.raises(OSError, match="No space"):
        model.export(path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["model.pt2"]


def test_a_run_whose_checkpoints_were_deleted_keeps_its_figures(digits_run, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(digits_run, folder)
    for path in folder.glob("checkpoint-*"):
        path.unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    again = ["incremental", "--data", "digits", "--method", "replay", "--epochs", "3", "--out", str(folder)]
    assert main(again) == 0
    printed = capsys.readouterr()
    assert "its checkpoints are gone" in printed.err
    assert f"last {json.loads(before['results.json'])['last_accuracy']:.2f}%" in printed.out
    assert main([*again, "--epochs", "1"]) == 2
    assert "holds a run with other settings (epochs is 3 there, not 1)" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_is_wrong_with_a_picture_is_said_with_its_name(digits_run, tmp_path, capsys):
    Image.new("L", (9, 8)).save(tmp_path / "wide.png")
    assert main(["predict", str(digits_run), str(tmp_path / "wide.png")]) == 2
    assert "wide.png: images must be bytes of shape (n, 8, 8, 1)" in capsys.readouterr().err
    good = load_images("digits").test_images[0, 0]
    Image.fromarray(good).save(tmp_path / "good.png")
    Image.fromarray(good).convert("RGB").save(tmp_path / "good.webp", lossless=True)
    (tmp_path / "text.png").write_text("text")
    names = [str(tmp_path / name) for name in ("wide.png", "good.png", "text.png", "none.png", "good.webp")]
    assert main(["predict", str(digits_run), *names]) == 2  # the good ones are predicted all the same
    printed = capsys.readouterr()
    (first, label, chance), (second, again, chance_again) = (line.split("\t") for line in printed.out.splitlines())
    assert (first, second) == (names[1], names[4])
    assert (label, chance) == (again, chance_again)  # colour for a network of grey
    assert printed.err.splitlines()[1:] == [
        f"everspan predict: {names[2]} is no picture that can be read",
        f"everspan predict: {names[3]} is not there",
    ]


def test_compare_draws_and_tells(digits_run, tmp_path, capsys):
    other = tmp_path / "finetune"
    assert main(["incremental", "--method", "finetune", *QUICK, "--no-export", "--out", str(other)]) == 0
    capsys.readouterr()
    assert main(["compare", str(digits_run), str(other), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "Replay" in printed
    assert "Finetune" in printed
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Average incremental accuracy: Replay" in page
    assert (tmp_path / "out" / "figure.svg").stat().st_size > 5000
    assert (tmp_path / "out" / "figure.png").exists()


def test_the_entry_without_scikit_learn_or_matplotlib_runs(tmp_path):
    """``python -m everspan.deep`` with torch, numpy and safetensors alone: all else is hidden from it."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 6)
    pixels = rng.integers(0, 256, (24, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "i.npz", train_images=pixels, train_labels=labels, test_images=pixels, test_labels=labels)
    script = """
import sys, runpy
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('sklearn', 'scipy', 'matplotlib', 'pandas', 'PIL', 'threadpoolctl', 'torchvision'):
            raise ImportError(f'hidden: {name}')
sys.meta_path.insert(0, Hide())
runpy.run_module('everspan.deep', run_name='__main__')
"""
    flags = ["--data", str(tmp_path / "i.npz"), "--increment", "2", "--memory-total", "8", "--backbone", "small"]
    flags += ["--classifier-epochs", "1", "--epochs", "1", "--jobs", "1", "--no-export", "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", script, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "average incremental accuracy" in done.stdout
    assert "epoch 1 of 1" in done.stderr
    assert "images/s" in done.stderr
    assert "left" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "lwf"], "unknown method 'lwf'"),
        (["--backbone", "vgg"], "unknown backbone 'vgg'"),
        (["--data", "mnist"], "--data must be digits"),
        (["--recipe", "secret"], "no recipe 'secret'"),
        (["--memory-total", "9"], "no room for one image of each of the 10 classes"),
        (["--memory-total", "9", "--memory-per-class", "2"], "different protocols"),
        (["--increment", "3"], "do not split"),
        (["--class-order", "0,1,2"], "each of the 10 classes once"),
        (["--epochs", "0"], "epochs must be from 1 to 1,000,000"),
        (["--held-out", "1.5"], "between 0 and 1"),
        (["--augment", "spin"], "unknown augmentation 'spin'"),
        (["--augment", "crop:inf"], "crop: 0 to 64 pixels"),
        (["--augment", "cutmix,cutmix"], "there twice"),
        (["--classifier-epochs", "0"], "classifier_epochs must be from 1 to 1,000,000"),
        (["--temperature", "inf"], "temperature must be above zero and finite"),
        (["--epochs", "100000000000"], "epochs must be from 1 to 1,000,000"),
        (["--seed", "-1"], "seed must be zero or more"),
        (["--class-order", "-1"], "seed of a class order"),
        (["--jobs", "-4"], "threads must be at least 1"),
        (["--backbone", "tests.deep._common:Wrong"], "makes (2, 8) of two images"),
        (
            ["--backbone", "tests.deep._common:Dictionary"],
            "must give a tensor of features (2, feature_size), not a dict",
        ),
        (["--backbone", "tests.deep._common:Colour"], "does not take images of (1, 8, 8)"),
        (["--backbone", "tests.deep._common:image_of"], "cannot be loaded"),
        (["--backbone", "tests.deep._common:make_engine"], "without arguments"),
        (["--backbone", "os:getcwd"], "must make a torch.nn.Module, not a str"),
        (["--backbone", "tests.deep._common:broken"], "cannot be made: RuntimeError: no weights here"),
        (["--method", "broken_module:Method"], "cannot be loaded: SyntaxError"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_module.py").write_text("class Method(:\n")
    assert main(["incremental", "--out", str(tmp_path / "run"), *arguments]) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1
    assert message in errors[0]
    assert not list(tmp_path.glob("run/checkpoint-*"))


def test_a_network_of_no_numbers_is_no_result(tmp_path, capsys):
    """One step: its loss was a number still."""
    flags = ["--learning-rate", "1e300", "--warmup", "0", *QUICK, "--first", "10", "--batch-size", "2000"]
    assert main(["incremental", "--method", "wa", *flags, "--out", str(tmp_path / "run")]) == 2
    assert "scores are no numbers any more" in capsys.readouterr().err
    assert not (tmp_path / "run" / "results.json").exists()


@pytest.mark.parametrize("arguments", [["--epochs", "many"], ["--schedule", "linear"], ["--flip-test", "maybe"]])
def test_values_of_the_wrong_kind_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["incremental", *arguments])
    assert stop.value.code == 2
    assert f"{arguments[0]} cannot be '{arguments[1]}'" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_said_so(tmp_path, capsys):
    assert main(["incremental", "--device", "cuda", "--out", str(tmp_path / "run")]) == 2
    assert "no CUDA device" in capsys.readouterr().err


def test_every_hyper_parameter_is_an_option_with_help(capsys):
    with pytest.raises(SystemExit):
        main(["incremental", "--method", "hlll", "--help"])
    text = capsys.readouterr().out
    assert "epochs of a task (default: 40)" in " ".join(text.split())  # as for the digits
    for name in ("temperature", "learning-rate", "memory-per-class", "class-order", "augment", "held-out"):
        assert f"--{name} " in text


def test_the_profile_of_the_data_gives_way_to_what_is_given():
    run, own = resolve({"data": "digits", "recipe": "best"})
    assert (run.increment, run.memory_total, own.backbone) == (2, 100, "small")
    assert own.start == "previous"
    assert own.augment == "crop:1"  # a mirrored digit is no digit
    run, own = resolve({"data": "digits", "memory_per_class": 7, "epochs": 3})
    assert (run.memory_total, run.memory_per_class, own.epochs) == (None, 7, 3)
    run, own = resolve({"data": "cifar100"})
    assert (run.increment, run.memory_total, own.backbone, own.epochs) == (10, 2000, "resnet18", 170)
    with pytest.raises(ValueError, match="no setting 'temperature'"):
        resolve({"method": "replay", "temperature": 2.0})


def test_a_short_training_is_not_warm_up_alone():
    assert resolve({"data": "mine", "epochs": 8})[1].warmup == 2
    assert resolve({"data": "mine", "epochs": 8, "warmup": 5})[1].warmup == 5
    assert resolve({"data": "cifar100", "recipe": "best", "epochs": 60})[1].warmup == 5


def test_a_path_is_the_same_however_it_is_written():
    assert {resolve({"data": data})[0].data for data in ("pictures", "pictures/", "./pictures")} == {"pictures"}


@pytest.mark.parametrize(("asked", "threads"), [("3", 3), ("0", None), ("", None), ("two", None)])
def test_the_environment_may_say_how_many_threads(monkeypatch, asked, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert command._cores() == (threads or len(os.sched_getaffinity(0)))


def test_settings_are_read_from_text_as_their_kind():
    assert parse_setting(MethodSettings, "milestones", "0.5,0.75") == (0.5, 0.75)
    assert parse_setting(MethodSettings, "flip_test", "yes") is True
    assert parse_setting(MethodSettings, "epochs", "3") == 3


@pytest.mark.parametrize("arguments", [["compare", "nowhere"], ["predict", "nowhere", "a.png"]])
def test_a_folder_that_holds_no_run_is_said_so(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert "nowhere holds no" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["2>&1 | head -1", "2>&1 | true", "2>&-"])
@pytest.mark.parametrize("entry", ["everspan incremental", "everspan.deep"])
def test_a_run_goes_on_when_nobody_reads_its_lines(tmp_path, entry, ending):
    flags = f"--method finetune {' '.join(QUICK)} --out {tmp_path / 'run'}"
    command = f"{sys.executable} -m {entry} {flags} {ending}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env=os.environ | {"PYTHONUNBUFFERED": "1"}, check=False)
    assert done.returncode == 0
    assert json.loads((tmp_path / "run" / "results.json").read_text())["tasks_done"] == 5
    assert (tmp_path / "run" / "model.pt2").exists()


def test_a_command_that_is_stopped_while_it_loads_says_so(monkeypatch, capsys):
    def pressed():
        raise KeyboardInterrupt

    monkeypatch.setattr(deep, "check_installed", pressed)
    assert main(["incremental"]) == 130
    assert capsys.readouterr().err == "\neverspan incremental: stopped\n"


@pytest.mark.parametrize("lengths", [[[4], [2, 2, 4]], [[4], [4, 4, 8]]])  # as foretold, and longer by a half
def test_the_time_left_is_told_over_all_stages(monkeypatch, capsys, lengths):
    """Every epoch takes a second; the plan is of 4 epochs, then of stages of 2, 2 and 4."""
    foretold, now, left = [[4], [2, 2, 4]], [0.0], []

    class Planned:
        def stages(self, task):
            return foretold[task]

        def work(self, task):
            return sum(foretold[task])

    monkeypatch.setattr(command.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(command.sys.stderr, "isatty", lambda: True)  # a line an epoch
    monkeypatch.setattr(command, "_duration", lambda seconds: left.append(seconds) or "")
    report = command.Report(range(2), Planned())
    for task, stages in enumerate(lengths):
        for stage, epochs in enumerate(stages):
            for epoch in range(epochs):
                now[0] += 1.0
                report.epoch(Place(task, stage, epoch + 1), epochs, 0.5, 10, 1.0)
    if lengths == foretold:
        assert left == pytest.approx(list(range(11, -1, -1)))
    assert min(left) >= 0.0
    assert left[-1] == 0.0
