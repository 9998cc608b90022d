"""The few old examples that are kept, chosen by herding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def herd(features: Tensor, count: int) -> Tensor:
    """Positions of ``count`` rows whose running mean stays nearest to the mean of all (Welling 2009; iCaRL).

    Features are scaled to length one. The j-th choice is the row x that makes the mean of the rows chosen, x among
    them, nearest to the mean of all rows; no row is chosen twice, and of equals the first.

    Examples
    --------
    >>> import torch
    >>> from everspan.deep.memory import herd
    >>> herd(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), count=2)
    tensor([2, 0])
    """
    rows = torch.nn.functional.normalize(features.double(), dim=1)
    # With s the sum of the rows chosen, |mean - (s + x) / j|^2 is least where x . (j mean - s) - |x|^2 / 2 is largest.
    products = rows @ rows.T
    gain, with_mean = -products.diagonal() / 2.0, products.mean(dim=1)
    order = torch.empty(min(count, len(rows)), dtype=torch.long, device=rows.device)
    for j in range(len(order)):  # nothing here waits for the device
        gain = gain + with_mean
        best = gain.argmax()
        order[j] = best
        gain = gain - products[best]
        gain[best] = -torch.inf
    return order


class ExemplarMemory:
    """Positions of the training images that are kept, by class, best first.

    Parameters
    ----------
    total : int, optional
        Images for all classes together: each class has ``total // classes seen``, and fewer as classes come.
    per_class : int, optional
        Images for every class, however many there are. Exactly one of the two is given; they are different protocols,
        and figures under one do not compare with figures under the other.

    Examples
    --------
    >>> import torch
    >>> from everspan.deep.memory import ExemplarMemory
    >>> memory = ExemplarMemory(total=5)
    >>> memory.add([0], lambda label: (torch.tensor([10, 11, 12, 13, 14, 15]), torch.rand(6, 4)))
    >>> memory.add([1], lambda label: (torch.tensor([20, 21, 22]), torch.rand(3, 4)))
    >>> len(memory), memory.share(2)
    (4, 2)
    """

    def __init__(self, total: int | None = None, per_class: int | None = None) -> None:
        if (total is None) == (per_class is None):
            raise ValueError("give the memory either a total or a number per class")
        if min(budget for budget in (total, per_class) if budget is not None) < 0:
            raise ValueError("a memory cannot be smaller than nothing")
        self.total, self.per_class = total, per_class
        self.rows: list[list[int]] = []

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.rows)

    def share(self, classes: int) -> int:
        """Images a class when so many classes are known."""
        if self.per_class is not None:
            return self.per_class
        assert self.total is not None
        return self.total // max(classes, 1)

    def add(self, labels: Sequence[int], images_of: Callable[[int], tuple[Tensor, Tensor]]) -> None:
        """Keep the best of new classes, and of the old ones what there is still room for.

        ``images_of(label)`` gives the positions of a class's training images and their features.
        """
        share = self.share(len(self.rows) + len(labels))
        self.rows = [rows[:share] for rows in self.rows]
        for label in labels:
            if label != len(self.rows):
                raise ValueError(f"class {label} came after {len(self.rows)} classes")
            positions, features = images_of(label)
            self.rows.append(positions[herd(features, share).cpu()].tolist())

    def positions(self) -> Tensor:
        """All kept images' positions, class after class."""
        return torch.tensor([row for rows in self.rows for row in rows], dtype=torch.long)
