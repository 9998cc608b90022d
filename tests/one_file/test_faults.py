"""A sample of the moments at which a process is killed or a disk fails; ``benchmarks/durability.py`` has all."""

from __future__ import annotations

import pytest

from . import faults


def test_whatever_file_operation_is_killed_or_fails_the_next_run_ends_as_if_nothing_had_happened(tmp_path):
    found = faults.run(tmp_path, "--sample", "60")
    if found is None:
        pytest.skip("the shim needs Linux and a C compiler")
    assert found["faults"] == 60
    assert min(found["operations"].values()) >= 5, "the shim sees the operations of every command"
    assert not found["wrong"], "\n".join(found["wrong"])
