"""Refine a set of features: find the small subspace they share, and read its certificate.

Run it with ``python examples/refine_features.py``.
"""

import numpy as np

from everspan import refine, smallest_dimension

# Thirty tasks in 200 dimensions share 4 directions; each task's own fit is off by about 5%.
rng = np.random.default_rng(0)
shared = np.linalg.qr(rng.standard_normal((200, 4)))[0]
fits = rng.standard_normal((30, 4)) @ shared.T
fits /= np.linalg.norm(fits, axis=1, keepdims=True)
fits += 0.05 / np.sqrt(200) * rng.standard_normal(fits.shape)

result = refine(fits, k=4)
print(
    f"{len(fits)} features fit into {result.dimension} dimensions: none is further away than {result.max_distance:.4f}"
)
print(f"no 4 dimensions can do better than {result.lower_bound:.4f} on all of them (gap {result.gap:.0e})")

angles = np.degrees(np.arccos(np.clip(np.linalg.svd(shared.T @ result.basis, compute_uv=False), -1, 1)))
print(f"largest principal angle to the directions they were made from: {angles.max():.2f} degrees")

# And if nobody told us that there are four?
bounds = smallest_dimension(fits, radius=0.06)
print(f"within 0.06 of every feature: at least {bounds.lower} and at most {bounds.upper} dimensions")
