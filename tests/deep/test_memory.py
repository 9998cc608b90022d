"""Herding and the budget of the memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from everspan.deep.memory import ExemplarMemory, herd


def by_the_definition(features, count):
    """p_j = argmin over rows not chosen of | mean - (x + sum of the chosen) / j |, in plain numpy."""
    rows = features / np.linalg.norm(features, axis=1, keepdims=True)
    mean, chosen = rows.mean(axis=0), []
    for j in range(1, count + 1):
        left = [i for i in range(len(rows)) if i not in chosen]
        distance = [np.linalg.norm(mean - (rows[i] + rows[chosen].sum(axis=0)) / j) for i in left]
        chosen.append(left[int(np.argmin(distance))])
    return chosen


@given(st.integers(0, 2**31), st.integers(1, 25), st.integers(1, 25))
def test_herding_picks_what_the_definition_says(seed, rows, count):
    features = np.random.default_rng(seed).standard_normal((rows, 4))
    assert herd(torch.from_numpy(features), count).tolist() == by_the_definition(features, min(rows, count))


def test_herding_looks_at_directions_not_at_lengths():
    features = torch.randn(20, 5, generator=torch.Generator().manual_seed(0)).abs()
    stretched = features * torch.linspace(0.1, 10.0, 20)[:, None]
    assert herd(features, 5).tolist() == herd(stretched, 5).tolist()


def test_herded_rows_are_nearer_to_the_mean_than_random_ones():
    generator = torch.Generator().manual_seed(1)
    features = torch.nn.functional.normalize(torch.randn(200, 6, generator=generator) + 1.0)
    mean = features.mean(dim=0)
    herded = (features[herd(features, 10)].mean(dim=0) - mean).norm()
    drawn = [(features[torch.randperm(200, generator=generator)[:10]].mean(dim=0) - mean).norm() for _ in range(100)]
    assert herded < min(drawn)


@given(
    st.sampled_from(["total", "per_class"]),
    st.integers(0, 40),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.integers(1, 12),
)
def test_the_memory_is_never_above_its_budget(kind, budget, increments, images):
    memory, label = ExemplarMemory(**{kind: budget}), 0
    before: list[list[int]] = []
    for increment in increments:
        labels = range(label, label + increment)
        memory.add(labels, lambda c: (torch.arange(images) + 100 * c, torch.rand(images, 3)))
        label += increment
        share = budget if kind == "per_class" else budget // label
        assert len(memory) <= (budget * label if kind == "per_class" else budget)
        assert [len(rows) for rows in memory.rows] == [min(share, images)] * label
        for old, now in zip(before, memory.rows, strict=False):
            assert old[: len(now)] == now  # the best stay, in their order
        assert all(row // 100 == c for c, rows in enumerate(memory.rows) for row in rows)
        before = [list(rows) for rows in memory.rows]


def test_total_and_per_class_are_not_confused():
    assert ExemplarMemory(total=20).share(10) == 2
    assert ExemplarMemory(per_class=20).share(10) == 20
    for wrong in ({}, {"total": 1, "per_class": 1}):
        with pytest.raises(ValueError, match="either a total or a number per class"):
            ExemplarMemory(**wrong)
    with pytest.raises(ValueError, match="smaller than nothing"):
        ExemplarMemory(total=-1)
