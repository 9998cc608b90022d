"""What strangers may send: run folders, pictures, pickles. They run no code, take little memory, and get one line."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
import zipfile

import numpy as np
import pytest
import torch
from PIL import EpsImagePlugin, Image

from everspan.cli import main
from everspan.deep import IncrementalModel
from everspan.deep.checkpoint import read_checkpoint, write_checkpoint, write_whole
from everspan.deep.runs import claimed
from everspan.scenarios import _images, load_images, read_picture
from everspan.scenarios._pickles import read_arrays

from . import strangers
from ._runs import finished

OWN = "tests.deep._common:Tiny"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strangers")
    before, cwd = torch.get_num_threads(), os.getcwd()
    torch.set_num_threads(1)
    strangers.make_runs(folder)
    (folder / "payload.py").write_text(strangers.PAYLOAD)
    os.chdir(folder)  # where a stranger's module would be found
    yield folder
    os.chdir(cwd)
    torch.set_num_threads(before)


def in_a_child(work):
    wrong, peak, _ = strangers.in_a_child(work)
    assert wrong is None, wrong
    assert peak <= strangers.MOST_MEMORY


# Code -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["method", "backbone"])
def test_a_stranger_s_run_folder_runs_no_code(home, tmp_path, setting):
    folder = tmp_path / "run"
    shutil.copytree(home / "icarl", folder)
    strangers.made_by_hand(folder)[f"a {setting} of the stranger's"](folder)
    strangers.payload_ran(reset=True)
    code, _, errors = strangers.run("predict", folder, home / "picture.png")
    assert code == 2
    assert f"{setting} 'payload:X'" in errors
    assert "--allow-code" in errors
    strangers.expect_one_line(code, errors)
    with pytest.raises(ValueError, match="allow_code=True"):
        IncrementalModel.load(folder)
    assert strangers.run(*strangers.resuming(home, "icarl", folder))[0] == 2  # its settings are others
    strangers.run("compare", folder, "--out", tmp_path / "compared")
    assert not strangers.payload_ran()
    with pytest.raises(ValueError, match=r"payload|X"):
        IncrementalModel.load(folder, allow_code=True)
    assert strangers.payload_ran(), "the payload is one: it runs where it is allowed"
    strangers.payload_ran(reset=True)


@pytest.mark.parametrize("name", ["a backbone that ends the process", "a backbone named like ours"])
def test_a_backbone_of_a_stranger_calls_no_function(home, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(home / "icarl", folder)
    strangers.made_by_hand(folder)[name](folder)
    in_a_child(lambda: strangers.check_run(home, folder, "icarl", resume=True))
    with pytest.raises(ValueError, match="code outside everspan"):
        IncrementalModel.load(folder)


def test_a_run_with_code_of_one_s_own_is_opened_when_that_is_allowed(data, tmp_path, capsys):
    folder, picture = tmp_path / "run", tmp_path / "picture.png"
    finished(data, folder, method="finetune")
    Image.new("L", (8, 8)).save(picture)
    assert main(["predict", str(folder), str(picture)]) == 2
    assert f"backbone '{OWN}'" in capsys.readouterr().err
    assert main(["predict", str(folder), str(picture), "--allow-code"]) == 0
    assert IncrementalModel.load(folder, allow_code=True).names


def test_a_name_that_the_user_gives_is_the_user_s_own(tmp_path, capsys):
    flags = ["incremental", "--method", "finetune", "--epochs", "1", "--device", "cpu", "--jobs", "1"]
    flags += ["--backbone", OWN, "--out", str(tmp_path / "run")]
    assert main(flags) == 0
    assert (tmp_path / "run" / "model.pt2").exists()
    assert main(flags) == 0  # again: the folder names what the command names
    assert main([*flags, "--backbone", "small"]) == 2
    assert f"backbone is '{OWN}' there" in capsys.readouterr().err


def test_code_is_allowed_for_runs_alone(tmp_path, capsys):
    (tmp_path / "a.everspan").touch()
    assert main(["predict", str(tmp_path / "a.everspan"), "table.csv", "--allow-code"]) == 2
    assert "goes with the folder of a run" in capsys.readouterr().err


# Run folders ----------------------------------------------------------------------------------------------------------


def test_every_folder_made_by_hand_gets_one_line(home, tmp_path):
    def check(method, names):
        for place, name in enumerate(names):
            folder = tmp_path / f"{method}-{place}" / "run"
            shutil.copytree(home / method, folder)
            strangers.made_by_hand(home / method)[name](folder)
            codes = strangers.check_run(home, folder, method, resume=False)
            assert codes[0] == 2 or name in ("views beyond the image", "a larger network"), (name, codes)

    names = strangers.made_by_hand(home / "icarl")
    in_a_child(lambda: check("icarl", names))
    in_a_child(lambda: check("rpsnet", [name for name in names if "modules" in name or "channels" in name]))


def test_odd_folders_get_one_line(home, tmp_path):
    def check():
        for seed in range(40):
            rng, method = np.random.default_rng(seed), list(strangers.METHODS)[seed % 4]
            folder = tmp_path / str(seed) / "run"
            strangers.odd_run(rng, home / method, folder)
            strangers.check_run(home, folder, method, resume=seed % 10 == 0)

    in_a_child(check)


def test_weights_that_are_no_numbers_are_refused_at_once(home, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(home / "hlll", folder)
    newest = max(folder.glob("checkpoint-*.safetensors"))
    tensors, facts = read_checkpoint(newest)
    tensors["network.classifier.bias"][0] = torch.nan
    write_checkpoint(newest, tensors, facts)
    code, out, errors = strangers.run("predict", folder, home / "picture.png", home / "picture.png")
    assert (code, out) == (2, "")
    assert "its weights are damaged" in errors
    strangers.expect_one_line(code, errors)


def test_a_network_says_so_where_it_has_no_finite_scores(home):
    model = IncrementalModel.load(home / "hlll")
    with torch.no_grad():
        model.method.network.classifier.weight.fill_(3e38)
    with pytest.raises(ValueError, match="scores are not finite"):
        model.predict(np.full((1, 8, 8), 200, dtype=np.uint8))


def test_a_checkpoint_for_another_number_is_refused(home, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(home / "hlll", folder)
    newest = max(folder.glob("checkpoint-*.safetensors"))
    tensors, facts = read_checkpoint(newest)
    write_checkpoint(newest, tensors | {"network.classifier.bias": torch.zeros(6, dtype=torch.int64)}, facts)
    with pytest.raises(ValueError, match=r"classifier\.bias is torch\.int64, not torch\.float32"):
        IncrementalModel.load(folder)


def test_a_memory_of_other_images_is_refused(home, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(home / "icarl", folder)
    max(folder.glob("checkpoint-*.safetensors")).unlink()
    last = max(folder.glob("checkpoint-*.safetensors"))
    tensors, facts = read_checkpoint(last)
    facts["memory"][0], facts["memory"][1] = facts["memory"][1], facts["memory"][0]
    write_checkpoint(last, tensors, facts)
    code, _, errors = strangers.run(*strangers.resuming(home, "icarl", folder))
    assert code == 2
    assert "remembers images of other classes" in errors


def test_links_in_a_stranger_s_folder_lead_to_no_other_file(tmp_path):
    precious, folder = tmp_path / "precious", tmp_path / "run"
    precious.write_text("precious")
    folder.mkdir()
    (folder / "a.json.partial").symlink_to(precious)
    write_whole(folder / "a.json", b"{}")
    assert (folder / "a.json").read_bytes() == b"{}"
    (folder / ".lock").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"), claimed(folder, {}):
        pass
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("value", ["x", -3, 10**12, [1]])
def test_a_number_of_threads_is_not_taken_from_a_stranger_unseen(home, tmp_path, value):
    folder = tmp_path / "run"
    shutil.copytree(home / "icarl", folder)
    settings = json.loads((folder / "settings.json").read_text())
    strangers.changed_settings(None, folder, settings | {"threads": value})
    command = [str(argument) for argument in strangers.resuming(home, "icarl", folder)]
    place = command.index("--threads")
    code, _, errors = strangers.run(*command[:place], *command[place + 2 :])
    assert code == 2
    strangers.expect_one_line(code, errors)


# Pictures -------------------------------------------------------------------------------------------------------------


def test_odd_pictures_get_one_line(home, tmp_path):
    def check():
        for path in strangers.odd_pictures_by_hand(tmp_path):
            assert strangers.check_picture(home, path) == 2, path
        for seed in range(20):
            path = strangers.odd_picture(np.random.default_rng(seed), tmp_path)
            strangers.check_picture(home, path)

    in_a_child(check)


def test_a_postscript_file_starts_no_ghostscript(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **named: started.append(given))
    (tmp_path / "picture.png").write_bytes(strangers.EPS)
    with pytest.raises(ValueError, match="no picture that can be read"):
        read_picture(tmp_path / "picture.png")
    assert not started


def test_a_picture_is_measured_before_it_is_decoded(tmp_path, monkeypatch):
    Image.new("L", (30, 20)).save(tmp_path / "picture.png")
    monkeypatch.setattr(_images, "MOST_PIXELS", 599)
    monkeypatch.setattr(Image.Image, "convert", lambda *given: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match="has 30 x 20 pixels, but at most 599 are read"):
        read_picture(tmp_path / "picture.png")


# Pickles and arrays ---------------------------------------------------------------------------------------------------


def test_odd_pickles_get_one_line(tmp_path):
    def check():
        for name, content in strangers.odd_pickles_by_hand().items():
            assert strangers.check_pickle(tmp_path, content) == 2, name
        for seed in range(10):
            strangers.check_pickle(tmp_path, strangers.odd_pickle(np.random.default_rng(seed)))

    in_a_child(check)


def test_nothing_that_a_pickle_names_is_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "payload.py").write_text(strangers.PAYLOAD)
    strangers.payload_ran(reset=True)
    for content in (b"cpayload\nX\n(tR.", b"\x80\x04\x8c\x07payload\x8c\x01X\x93)R."):
        with pytest.raises(ValueError, match=r"wants to run 'payload\.X'"):
            read_arrays(content)
    assert not strangers.payload_ran()
    assert "payload" not in sys.modules


@pytest.mark.parametrize("protocol", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_what_they_were_pickled_as(protocol, dtype, order):
    array = np.asarray(np.arange(24).reshape(2, 3, 4), dtype=dtype, order=order)
    values = [1, 2**40, -5, None, True, 0.5, "é", b"\xff", ()]
    back = read_arrays(pickle.dumps({b"data": array, "values": values}, protocol))
    assert back["values"] == values
    np.testing.assert_array_equal(back[b"data"], array)
    assert back[b"data"].dtype == array.dtype


def test_pickles_of_python_2_are_read():
    """As the official files are: texts are bytes, and an array's content is one of them."""
    content = bytes(range(256)) * 12
    data = strangers._content(strangers._DTYPE, content=b"T" + len(content).to_bytes(4, "little") + content)
    back = read_arrays(b"\x80\x02}(U\x04data" + data + b"U\x0bfine_labels]K\x07aU\x06labels]q\x01(K\x01K\x02eu.")
    assert back[b"data"].tolist() == [list(content)]
    assert back[b"labels"] == [1, 2]


def test_odd_npz_files_get_one_line(home, tmp_path):
    def check():
        for seed in range(40):
            (tmp_path / "odd.npz").write_bytes(strangers.odd_npz(np.random.default_rng(seed), home / "images.npz"))
            strangers.check_npz(tmp_path / "odd.npz")

    in_a_child(check)


def test_an_npz_file_that_unpacks_to_gigabytes_is_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    about = {"descr": "|u1", "fortran_order": False, "shape": (1 << 15, 64, 64)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed, packed.open("train_images.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, about)
        for _ in range(1 << 7):
            member.write(bytes(1 << 20))

    def check():
        with pytest.raises(ValueError, match="would unpack to 134,217,"):
            load_images(str(path))

    in_a_child(check)
    assert path.stat().st_size < 1 << 20
