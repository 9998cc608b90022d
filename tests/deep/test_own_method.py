"""The method of docs/your-own-method.md: it is 40 lines, it runs, and it resumes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from everspan.cli import main
from everspan.deep.checkpoint import read_checkpoint
from everspan.deep.methods import load_method

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-own-method.md"
FLAGS = ["--data", "digits", "--backbone", "tests.deep._common:Tiny", "--epochs", "2", "--device", "cpu", "--jobs", "1"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "learning_without_forgetting.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "learning_without_forgetting", raising=False)
    return code


def test_it_is_forty_lines(module):
    assert len(module.strip().splitlines()) <= 40


@pytest.mark.parametrize("name", ["LwF", "LwFAlone"])
def test_it_runs_and_its_settings_are_options(module, tmp_path, capsys, name):
    folder = tmp_path / "run"
    arguments = ["incremental", "--method", f"learning_without_forgetting:{name}", *FLAGS, "--out", str(folder)]
    assert main([*arguments, "--distillation", "0.5"]) == 0
    assert "average incremental accuracy" in capsys.readouterr().out
    assert (folder / "model.pt2").exists()
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    assert "--distillation" in capsys.readouterr().out


def test_it_resumes_to_the_same_bits(module, tmp_path):
    states = []
    for stops in (0, 7):
        folder = tmp_path / f"run-{stops}"
        method = load_method("learning_without_forgetting:LwF")
        arguments = ["--method", "learning_without_forgetting:LwF", *FLAGS, "--checkpoint-seconds", "0", "--no-export"]
        original, left = method.loss, [stops * 13]

        def loss(self, images, targets, original=original, left=left):
            if left[0]:
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt
            return original(self, images, targets)

        method.loss = loss
        codes = []
        while not codes or codes[-1] == 130:
            codes.append(main(["incremental", *arguments, "--out", str(folder)]))
        method.loss = original
        assert codes == ([130, 0] if stops else [0])
        states.append(read_checkpoint(max(folder.glob("checkpoint-*.safetensors")))[0])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
