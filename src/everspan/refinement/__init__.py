"""The min-max subspace engine: the smallest subspace that stays near every feature, with a certificate.

It knows matrices only, nothing of tasks or labels (paper, Section 2.2, Algorithms 2 and 3, Theorem 5).
"""

from ._refine import (
    Certificate,
    DimensionBounds,
    GramRefinement,
    Refinement,
    RefinementWarning,
    refine,
    refine_gram,
    smallest_dimension,
)

__all__ = [
    "Certificate",
    "DimensionBounds",
    "GramRefinement",
    "Refinement",
    "RefinementWarning",
    "refine",
    "refine_gram",
    "smallest_dimension",
]
