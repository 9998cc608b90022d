"""A primal-dual interior point for the refinement program, after its reduction.

The features arrive as the rows c_i of an (n, r) matrix in principal coordinates. The program is

    min t   s.t.   c_i' Y c_i <= t,   0 <= Y <= I,   tr Y = r - k.

Three choices make it small and accurate:

* **Units.** With singular values sigma_j, the first k directions are divided by S_j ~ sigma_j / sigma_{k+1}, so that Y
  becomes S Y S, the box 0 <= Y <= N = S^2 and the trace <N^-1, Y>. Every quantity is then of order one even when the
  features are a subspace plus noise of 1e-9, and the optimum is found to a relative, not only an absolute, accuracy.
* **One congruence for two cones.** Y and N - Y share their step, so with Nesterov-Todd scaling the Newton operator is
  dY -> W1^-1 dY W1^-1 + W2^-1 dY W2^-1. One A with A' W1^-1 A = I and A' W2^-1 A = diag(phi) turns it into an
  entrywise product with 1 + phi_a phi_b.
* **Only n unknowns.** What is left is a positive definite n x n system for the multipliers p.

One Mehrotra predictor-corrector step is taken per factorisation. Nothing returned here is trusted: the caller
recomputes the primal value and the dual bound from (Y, p) alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgesdd, dpotrf, dpotrs, dsyevd

from ._arrays import Array

_STEEPEST = 1e8  # the largest N: beyond it the optimum depends on N only through terms of order 1 / N
_DIRECT = 400_000  # up to this many entries, the n x r^2 matrix of all products is formed in one piece
_ROWS = 128  # rows of H at a time, so that a block stays in the cache
_lowest, _highest, _total = np.minimum.reduce, np.maximum.reduce, np.add.reduce  # at half the cost of the methods
_CORRECTIONS = 3  # at most, beyond Mehrotra's one
_RELATIVE = 1e-6  # the gap to reach relative to the optimum, where that is tiny
_PATIENCE = 4  # iterations without progress before double precision is taken to be exhausted


class NumericalTrouble(ArithmeticError):
    """A factorisation failed: the iterate is as good as double precision allows from here."""


@dataclass(frozen=True, eq=False)
class InteriorPoint:
    """The best primal matrix Y (r, r) and the best multipliers p (n,) that were met."""

    Y: Array
    weights: Array
    iterations: int


@dataclass(eq=False)
class _Iterate:
    Y: Array
    Y2: Array  # N - Y, carried on its own: where Y is nearly N the difference would have no digits
    Z: Array  # multiplier of Y >= 0
    Z2: Array  # multiplier of Y <= N
    p: Array  # multipliers of the distances, on the simplex
    s: Array  # slacks of the distances
    t: float
    lam: float  # multiplier of the trace

    def complementarity(self) -> float:
        return float(self.p.dot(self.s) + np.vdot(self.Y, self.Z) + np.vdot(self.Y2, self.Z2))


@dataclass(frozen=True, eq=False)
class _Program:
    """min t s.t. b_i'Y b_i <= t, 0 <= Y <= diag(N), <diag(1/N), Y> = r - k, with b_i of order one."""

    B: Array
    N: Array
    k: int
    unit: float  # squared distances here times unit are squared distances outside
    scale: Array  # outside, the entries of Y are Y_ab / (scale_a scale_b)
    spectrum: Array  # eigenvalues of N^1/2 B'B N^1/2 / n, descending; they sum to 1 beyond k
    identity: Array
    ones: Array

    @classmethod
    def from_features(cls, C: Array, k: int) -> _Program:
        squares = (C * C).sum(axis=0)
        unit = float(squares[k:].sum()) / len(C)  # the dual bound of uniform weights; the optimum is at most n times it
        spectrum = squares / (len(C) * unit)
        N = np.minimum(np.maximum(spectrum, 1.0), _STEEPEST)
        scale = np.sqrt(np.maximum(spectrum, 1.0))
        B = C / (np.sqrt(unit) * scale)
        return cls(B, N, k, unit, scale, spectrum * (N / scale**2), np.eye(N.size), np.ones(len(C)))

    def start(self) -> _Iterate:
        """Uniform weights, Y diagonal (small where B'B is large, equal elsewhere), multipliers on the central path."""
        B, N, k = self.B, self.N, self.k
        n, r = B.shape
        y = np.empty(r)
        y[:k] = np.minimum((r - k) / r, 0.15 / self.spectrum[:k])
        rest = float(y[:k].sum()) / (r - k)
        y[k:] = 1.0 - rest
        y2 = 1.0 - y
        y2[k:] = rest
        q = (B * B) @ (N * y)
        mu = max(1.5 * float(q.max() - q.mean()), 0.5) / n
        t = float(q.mean()) + n * mu
        z, z2 = mu / y, mu / y2
        return _Iterate(
            Y=np.diag(N * y),
            Y2=np.diag(N * y2),
            Z=np.diag(z / N),
            Z2=np.diag(z2 / N),
            p=np.full(n, 1.0 / n),
            s=t - q,
            t=t,
            lam=float((self.spectrum - z + z2)[k:].mean()),
        )

    def matrix(self, it: _Iterate) -> Array:
        """Y outside. Where N was cut, the trace that the first k directions give up goes to the others."""
        Y = it.Y / np.multiply.outer(self.scale, self.scale)
        rest = it.Y2[self.k :, self.k :]
        Y[self.k :, self.k :] = np.eye(len(rest)) - rest * (Y.diagonal()[: self.k].sum() / rest.trace())
        return 0.5 * (Y + Y.T)


def solve(C: Array, k: int, *, tol: float, max_iterations: int) -> InteriorPoint:
    """Solve the reduced program for features in principal coordinates, 1 <= k < r.

    Stops when the certified gap is at most ``tol`` times the largest squared feature norm and at most 1e-6 of the
    optimum, when ``max_iterations`` are spent, or when double precision is exhausted.
    """
    program = _Program.from_features(C, k)
    largest = float((C * C).sum(axis=1).max()) / program.unit
    it = program.start()
    best, best_p, upper, lower = it, it.p, np.inf, -np.inf
    gap_before, stalled, exhausted = np.inf, 0, False
    iteration = 0
    while True:
        q = _quadratic(program.B, it.Y)
        largest_q = float(_highest(q))
        if largest_q < upper:
            best, upper = it, largest_q
        goal = min(tol * largest, _RELATIVE * upper)
        gap = it.complementarity()
        last = exhausted or stalled == _PATIENCE or iteration == max_iterations
        if last or gap < 20.0 * goal:  # the bound itself costs a decomposition; far from the goal the estimate will do
            bound = _dual_bound(C, it.p, k) / program.unit
            if bound > lower:
                best_p, lower = it.p, bound
            if last or upper - lower <= goal:
                break
        try:
            it = _Newton(program, it, q, gap).step()
        except NumericalTrouble:
            exhausted = True
            continue
        iteration += 1
        stalled = stalled + 1 if iteration > 10 and gap > 0.9 * gap_before else 0
        gap_before = gap
    return InteriorPoint(program.matrix(best), best_p / best_p.sum(), iteration)


def _quadratic(B: Array, Y: Array) -> Array:
    """b_i' Y b_i for all rows."""
    values: Array = _total(B.dot(Y) * B, axis=1)
    return values


def _dual_bound(C: Array, p: Array, k: int) -> float:
    """Sum of the r - k smallest eigenvalues of C' diag(p) C, through singular values: squares lose half the digits."""
    values = dgesdd(np.sqrt(p)[:, None] * C, compute_uv=0)[1]
    return float(values[k:] @ values[k:])


class _Cone:
    """Nesterov-Todd scaling of a primal matrix X and its multiplier Z: G with G^-1 X G^-T = G' Z G = diag(d).

    A step is written dx = diag(d)^-1/2 G^-1 dX G^-T diag(d)^-1/2 and dz likewise, so that I + a dx >= 0 says that
    X + a dX stays in the cone, and a Newton step solves dx + dz = k - I for a right-hand side k.
    """

    def __init__(self, X: Array, Z: Array) -> None:
        L, bad_x = dpotrf(X.T, lower=1)
        if bad_x:
            raise NumericalTrouble
        squares, V, bad = dsyevd(L.T.dot(Z).dot(L))
        if bad or not squares[0] > 0.0:
            raise NumericalTrouble
        self.d = np.sqrt(squares)
        self.root = np.sqrt(self.d)
        self.G = L.dot(V) / self.root
        self.F = (self.G / self.root).T.dot(Z)  # diag(sqrt d) G^-1

    def within(self, basis: Array, sign: float) -> None:
        """Let steps come as dY in a basis: dX = sign A dY A', where basis = G^-1 A."""
        root = self.root[:, None]
        self.M, self.J = basis / root, basis * root
        self.signed = sign * self.M.T

    def dx(self, dY: Array) -> Array:
        dx: Array = self.M.dot(dY).dot(self.signed)
        return dx

    def dZ(self, dz: Array) -> Array:
        dZ: Array = self.F.T.dot(dz).dot(self.F)
        return dZ

    def recentring(self, dx: Array, dz: Array, target: float) -> Array:
        """The k of a corrector: aim at X Z = target and take out the error dX o dZ of the step it corrects."""
        product = (dx * self.d).dot(dz)
        k: Array = product + product.T
        k /= -np.add.outer(self.d, self.d)
        _diagonal(k)[:] += target / (self.d * self.d)
        return k


@dataclass(eq=False)
class _Step:
    """A direction, and how far it may be followed in the primal and in the dual variables."""

    dp: Array
    dlam: float
    dt: float
    dY: Array
    dx1: Array
    dx2: Array
    dz1: Array
    dz2: Array
    ds: Array
    primal: float
    dual: float


class _Newton:
    """One factorised Newton system; `step` takes the predictor-corrector step it gives."""

    def __init__(self, program: _Program, it: _Iterate, q: Array, gap: float) -> None:
        n, r = program.B.shape
        self.program, self.it, self.q, self.gap, self.mu = program, it, q, gap, gap / (n + 2 * r)
        self.costly = n * r * r > _DIRECT
        self.lower, self.upper = lower, upper = _Cone(it.Y, it.Z), _Cone(it.Y2, it.Z2)
        # A = G1 Q with A' W1^-1 A = I, A' W2^-1 A = diag(theta^2), where W = G G'
        U, theta, Qt, bad = dgesdd((upper.F / upper.root[:, None]).dot(lower.G))
        if bad:
            raise NumericalTrouble
        lower.within(Qt.T, 1.0)
        upper.within(U * theta, -1.0)
        self.A = lower.G.dot(Qt.T)
        self.phi = theta * theta
        self.D = 1.0 / (1.0 + np.multiply.outer(self.phi, self.phi))
        self.B = program.B.dot(self.A)
        self.E = (self.A.T / program.N).dot(self.A)
        self.residual = it.lam * self.E - (self.B.T * it.p).dot(self.B)
        self._factorise()

    def _factorise(self) -> None:
        ED = self.E * self.D
        self.h = _quadratic(self.B, ED)
        self.tau = float(np.vdot(self.E, ED))
        self.ratio = self.it.s / self.it.p
        accuracy = min(1e-8, max(1e-7 * self.gap, 1e-13))
        H = _gram_of_squares(self.B, self.phi, self.D, self.h / math.sqrt(self.tau), accuracy)
        _diagonal(H)[:] += self.ratio
        self.U = _cholesky(H)
        self.ones = dpotrs(self.U, self.program.ones)[0]
        self.ones_sum = _total(self.ones)

    def _direction(self, K: Array, complementarity: Array | float) -> tuple[Array, float, float, Array]:
        """dp, dlam, dt and dY in A's basis, for the right-hand sides of the cones and of the p_i s_i."""
        KD = K * self.D
        excess = float(np.vdot(self.E, KD))
        rhs = complementarity + (self.q - self.it.t) + _quadratic(self.B, KD) - self.h * (excess / self.tau)
        x = dpotrs(self.U, rhs)[0]
        dt = _total(x) / self.ones_sum
        dp = x - dt * self.ones
        dlam = (self.h.dot(dp) - excess) / self.tau
        return dp, dlam, dt, (K - (self.B.T * dp).dot(self.B) + dlam * self.E) * self.D

    def _predictor(self) -> _Step:
        """Towards mu = 0. Here dx + dz = -I, so one spectrum tells both step lengths."""
        it, identity = self.it, self.program.identity
        dp, dlam, dt, dY = self._direction(self.residual, 0.0)
        dx1, dx2, ratio = self.lower.dx(dY), self.upper.dx(dY), -1.0 - dp / it.p  # ratio = ds / s
        e1, e2 = dsyevd(dx1.T, compute_v=0)[0], dsyevd(dx2.T, compute_v=0)[0]
        primal = min(1.0, _step_to(min(e1[0], e2[0], _lowest(ratio))))
        dual = min(1.0, _step_to(-1.0 - max(e1[-1], e2[-1], _highest(ratio))))
        return _Step(dp, dlam, dt, dY, dx1, dx2, -identity - dx1, -identity - dx2, it.s * ratio, primal, dual)

    def _corrector(self, before: _Step, target: float, damping: float) -> _Step:
        """Recentre to X Z = target, and take out the second-order errors of the step before."""
        it, lower, upper, identity = self.it, self.lower, self.upper, self.program.identity
        k1, k2 = lower.recentring(before.dx1, before.dz1, target), upper.recentring(before.dx2, before.dz2, target)
        complementarity = (target - before.ds * before.dp) / it.p
        K = self.residual + lower.J.T.dot(k1).dot(lower.J) - upper.J.T.dot(k2).dot(upper.J)
        dp, dlam, dt, dY = self._direction(K, complementarity)
        dx1, dx2, ds = lower.dx(dY), upper.dx(dY), complementarity - it.s - self.ratio * dp
        dz1, dz2 = k1 - identity - dx1, k2 - identity - dx2
        primal = min(1.0, damping * _step_to(min(_bottom(dx1), _bottom(dx2), _lowest(ds / it.s))))
        dual = min(1.0, damping * _step_to(min(_bottom(dz1), _bottom(dz2), _lowest(dp / it.p))))
        return _Step(dp, dlam, dt, dY, dx1, dx2, dz1, dz2, ds, primal, dual)

    def step(self) -> _Iterate:
        it = self.it
        step = self._predictor()
        shortest = min(step.primal, step.dual)
        target = max(1.0 - 0.5 * (step.primal + step.dual), 1e-2) ** 1.5 * self.mu
        damping = 0.9 + 0.095 * shortest  # bolder where the predictor could go far
        step = self._corrector(step, target, damping)
        if self.costly:  # more corrections are cheap beside the factorisation
            for _ in range(_CORRECTIONS):
                better = self._corrector(step, target, damping)
                if min(better.primal, better.dual) < 1.02 * min(step.primal, step.dual):
                    break
                step = better
        if not max(step.primal, step.dual) > 1e-5:
            raise NumericalTrouble
        change = self.A.dot(step.dY).dot(self.A.T)
        change = 0.5 * step.primal * (change + change.T)  # A is large near the end, and rounding with it
        return _Iterate(
            Y=it.Y + change,
            Y2=it.Y2 - change,
            Z=it.Z + step.dual * self.lower.dZ(step.dz1),
            Z2=it.Z2 + step.dual * self.upper.dZ(step.dz2),
            p=it.p + step.dual * step.dp,
            s=it.s + step.primal * step.ds,
            t=it.t + step.primal * step.dt,
            lam=it.lam + step.dual * step.dlam,
        )


def _diagonal(X: Array) -> Array:
    """A writable view of the diagonal of a C-contiguous matrix."""
    return X.reshape(-1)[:: len(X) + 1]


def _bottom(dx: Array) -> float:
    """The lowest eigenvalue."""
    return float(dsyevd(dx.T, compute_v=0)[0][0])  # .T: already in Fortran's order


def _step_to(lowest: float) -> float:
    """The largest step a with 1 + a lowest >= 0."""
    return -1.0 / lowest if lowest < 0.0 else np.inf


def _cholesky(H: Array) -> Array:
    """The upper Cholesky factor of a positive definite matrix that rounding may have made slightly indefinite."""
    U: Array
    for exponent in range(-15, -9):
        U, bad = dpotrf(H.T, lower=0, clean=0)  # H' is already in Fortran's order
        if not bad:
            return U
        _diagonal(H)[:] += 10.0**exponent * H.diagonal().max()
    raise NumericalTrouble


def _gram_of_squares(B: Array, phi: Array, D: Array, less: Array, accuracy: float) -> Array:
    """H_ij = sum_ab D_ab B_ia B_ib B_ja B_jb - less_i less_j; at least its lower triangle.

    These are the inner products of all b_i b_i' under D, with the trace projected out. After a diagonal scaling
    D_ab = 1 / (1 + phi_a phi_b) is sech of a sum: numerically of rank R ~ 15 to 40 whatever r is. So H is a sum of R
    entrywise squares of n x n products, at R n^2 r operations instead of n^2 r^2 / 2.
    """
    n, r = B.shape
    if n * r * r <= _DIRECT:
        T = (B[:, :, None] * B[:, None, :]).reshape(n, r * r)
        direct: Array = (T * D.ravel()).dot(T.T) - np.multiply.outer(less, less)
        return direct
    scale = np.sqrt(np.maximum(phi, np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(D * np.multiply.outer(scale, scale))
    kept = np.abs(values) > accuracy * np.abs(values).max()
    factors = vectors[:, kept] * np.sqrt(np.abs(values[kept])) / scale[:, None]
    H = np.zeros((n, n))
    for low in range(0, n, _ROWS):
        high = min(low + _ROWS, n)
        total = np.multiply.outer(-less[low:high], less[:high])
        for factor, sign in zip(factors.T, np.sign(values[kept]), strict=True):
            block = (B[low:high] * factor).dot(B[:high].T)
            block *= block
            if sign < 0.0:
                total -= block
            else:
                total += block
        H[low:high, :high] = total
    return H
