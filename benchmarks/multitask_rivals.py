"""The rivals of multitask.py, each a function (X, y, task, X_test, task_test, kind, seed) -> predictions or scores.

Tasks are numbered 0, 1, ... in the order they arrive. Every rival chooses among 8 to 12 candidates by 5-fold
cross-validation inside the training rows, folds drawn within each task (and within each of its classes), by the squared
error or the log-loss of all held-out rows together. (By the area under the curve rivals chose worse on Landmine, and a
strength a task is worse than one for all tasks.) Grids were settled on splits that multitask.py does not use.

Linear models with something shared and something of a task's own are all one penalised fit, `blocks`: what differs is
which columns have a shared coefficient, which have one of a task's own, and where the strengths come from.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

FOLDS = 5
FREE = 1e-6  # the strength on what is not meant to be shrunk


def folds_of(y, task, kind, seed):
    """A fold a row: every task's rows (of every class) dealt out in turn, starting anywhere."""
    rng = np.random.default_rng([seed, 1])
    group = task if kind == "regression" else 2 * task + (y > 0)
    order = np.lexsort((rng.random(len(y)), group))
    first = np.searchsorted(group[order], group[order])
    fold = np.empty(len(y), dtype=int)
    fold[order] = np.arange(len(y)) - first + rng.integers(FOLDS, size=group.max() + 1)[group[order]]
    return fold % FOLDS


def losses(scores, y, kind):
    return np.square(y - scores) if kind == "regression" else np.logaddexp(0.0, -(2.0 * y - 1.0) * scores)


@dataclass
class Stack:
    """All tasks in one array, rows padded to the longest: X (tasks, rows, columns), the last column constant."""

    X: np.ndarray
    y: np.ndarray
    fold: np.ndarray  # -1 where there is no row
    kind: str

    @classmethod
    def of(cls, X, y, task, kind, seed):
        counts, order = np.bincount(task), np.argsort(task, kind="stable")
        place = task[order], np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = len(counts), counts.max()
        made = cls(np.zeros((*shape, X.shape[1] + 1)), np.zeros(shape), np.full(shape, -1), kind)
        made.X[place] = np.column_stack([X, np.ones(len(X))])[order]
        made.y[place], made.fold[place] = y[order], folds_of(y, task, kind, seed)[order]
        return made

    def gram(self, rows, coefficients):
        """X' W X and X' W z of every task: z is y, or Newton's working response at these coefficients."""
        weight, target = rows.astype(float), self.y
        if self.kind == "classification":
            scores = np.clip(np.einsum("tnp,tp->tn", self.X, coefficients), -15.0, 15.0)
            p = expit(scores)
            weight, target = rows * p * (1.0 - p), scores + (self.y - p) / (p * (1.0 - p))
        weighted = self.X.transpose(0, 2, 1) * weight[:, None]
        return weighted @ self.X, (weighted @ target[:, :, None])[:, :, 0]


def tuned(fit, grid, X, y, task, X_test, task_test, kind, seed):
    """Scores of the best candidate; fit(stack, rows, candidates) has coefficients (candidates, tasks, columns)."""
    middle, scale = (y.mean(), y.std()) if kind == "regression" else (0.0, 1.0)
    stack, total = Stack.of(X, (y - middle) / scale, task, kind, seed), 0.0
    for fold in range(FOLDS):
        coefficients = fit(stack, (stack.fold >= 0) & (stack.fold != fold), grid)
        scores = np.einsum("tnp,ctp->ctn", stack.X, coefficients)
        total += np.sum(losses(scores, stack.y, kind) * (stack.fold == fold), axis=(1, 2))
    coefficients = fit(stack, stack.fold >= 0, [grid[np.argmin(total)]])[0][task_test]
    return middle + scale * (np.sum(X_test * coefficients[:, :-1], axis=1) + coefficients[:, -1])


# --- linear: coefficients shared by all tasks, and coefficients of a task's own ---------------------------------------


def blocks(gram, moment, shared, own, shared_strength, own_strength):
    """The penalised least-squares fit with coefficients of `shared` columns and, for every task, of `own` columns.

    The coefficients (tasks, columns), every task's own, and what the posterior covariances are made of: inverse for own
    coefficients were the shared ones known, covariance of the shared ones, across from these to a task's own.
    """
    inverse = np.linalg.inv(gram[:, own, own] + own_strength)
    cross = gram[:, own, shared]
    across = inverse @ cross
    schur = np.sum(gram[:, shared, shared] - cross.transpose(0, 2, 1) @ across, axis=0) + np.diag(shared_strength)
    covariance = np.linalg.inv(schur)
    common = covariance @ np.sum(moment[:, shared] - np.einsum("tos,to->ts", across, moment[:, own]), axis=0)
    mine = np.einsum("toq,tq->to", inverse, moment[:, own]) - across @ common
    coefficients = np.zeros(moment.shape)
    coefficients[:, shared] += common
    coefficients[:, own] += mine
    return coefficients, mine, inverse, across, covariance


def penalised(stack, rows, shared_strength=(), own_strength=(), steps=30):
    """`blocks` of the last columns, as many as there are strengths; for classification Newton's method around it."""
    p = stack.X.shape[2]
    shared, own = slice(p - len(shared_strength), p), slice(p - len(own_strength), p)
    coefficients = np.zeros((len(stack.X), p))
    for _ in range(steps):
        before = coefficients
        parts = stack.gram(rows, before)
        coefficients = blocks(*parts, shared, own, np.array(shared_strength), np.diag(own_strength))[0]
        if stack.kind == "regression" or np.max(np.abs(coefficients - before)) < 1e-4:
            break
    return coefficients


def strengths(stack, slope, constant):
    return np.append(np.full(stack.X.shape[2] - 1, slope), constant)


def independent(*given):
    """A ridge or logistic regression a task: strengths of slopes and of constants, the same for all tasks."""

    def fit(stack, rows, grid):
        return np.stack([penalised(stack, rows, own_strength=strengths(stack, *candidate)) for candidate in grid])

    return tuned(fit, list(product((3.0, 10.0, 30.0, 100.0), (0.1, 1.0, 3.0))), *given)


def pooled(*given):
    """One ridge or logistic regression for all rows."""

    def fit(stack, rows, grid):
        return np.stack([penalised(stack, rows, strengths(stack, slope, FREE)) for slope in grid])

    return tuned(fit, list(np.logspace(-1.0, 3.5, 10)), *given)


def pooled_with_constants(*given):
    """One regression for all rows and the task as a one-hot column: strengths of slopes and of constants."""

    def fit(stack, rows, grid):
        return np.stack([penalised(stack, rows, strengths(stack, slope, FREE), [own]) for slope, own in grid])

    return tuned(fit, list(product((1.0, 10.0, 100.0), (1.0, 3.0, 10.0, 30.0))), *given)


# --- mixed effects ----------------------------------------------------------------------------------------------------


def mixed_effects(*given):
    """Random constants, with or without random slopes; empirical Bayes over all tasks at once.

    Candidates: which effects are random and how their variances are tied, and a ridge on the fixed slopes.
    """

    def fit(stack, rows, grid):
        found, made = {}, []
        for structure, ridge in grid:  # the next ridge goes on from the variances of the last one
            coefficients, found[structure] = empirical_bayes(stack, rows, structure, ridge, found.get(structure))
            made.append(coefficients)
        return np.stack(made)

    return tuned(fit, list(product(("constant", "common", "diagonal", "full"), (1.0, 30.0, 100.0))), *given)


def empirical_bayes(stack, rows, structure, ridge, start=None, steps=40):
    """Coefficients, and the (REML) estimates of the random effects' covariance and of the noise.

    Variances by MacKay's fixed point, which is quicker than EM and ends where it does; a full covariance by EM. For
    classification one Newton step a round, the variances from the Laplace approximation (penalised quasi-likelihood).
    """
    tasks, _, p = stack.X.shape
    random = 1 if structure == "constant" else p
    shared, own, shared_strength = slice(0, p), slice(p - random, p), strengths(stack, ridge, FREE)
    prior, noise = (0.1 * np.eye(random), 1.0) if start is None else start
    coefficients, n = np.zeros((tasks, p)), rows.sum()
    gram, moment = stack.gram(rows, coefficients)
    for _ in range(steps):
        strength = noise * np.linalg.inv(prior)
        coefficients, mine, inverse, across, covariance = blocks(gram, moment, shared, own, shared_strength, strength)
        spread = noise * (inverse.sum(axis=0) + np.tensordot(across @ covariance, across, ([0, 2], [0, 2])))
        known = tasks - np.diagonal(np.linalg.solve(prior, spread))  # how many of these effects the rows determine
        before, prior = prior, updated(structure, mine, spread, known) + 1e-6 * np.eye(random)
        if stack.kind == "regression":
            fitted = np.einsum("tp,tpq,tq->", coefficients, gram, coefficients)
            residual = np.sum(np.square(stack.y) * rows) - 2.0 * np.sum(coefficients * moment) + fitted
            free = n - known.sum() - np.sum(1.0 - shared_strength * np.diagonal(covariance))
            # as if a tenth more rows had half of y's variance for noise: without it, with two rows a task, none is left
            noise = (residual + 0.05 * n) / (max(free, 0.0) + 0.1 * n)
        else:
            gram, moment = stack.gram(rows, coefficients)
        if np.max(np.abs(prior - before)) < 0.01 * np.max(np.diagonal(prior)):
            break
    return coefficients, (prior, noise)


def updated(structure, mine, spread, known):
    if structure == "full":
        return (mine.T @ mine + spread) / len(mine)
    squares = np.sum(np.square(mine), axis=0)
    if structure == "common":
        squares[:-1], known[:-1] = squares[:-1].mean(), known[:-1].mean()
    return np.diag(squares / np.maximum(known, 1e-6))


# --- gradient boosting ------------------------------------------------------------------------------------------------


def gradient_boosting(X, y, task, X_test, task_test, kind, seed):
    """Histogram gradient boosting with the task as a category, with or without the mean of its y beside it.

    The mean is there because scikit-learn's trees do not split off categories of less than 10 rows. Of every candidate
    the best number of rounds, 1 to 100, is taken.
    """
    make = HistGradientBoostingRegressor if kind == "regression" else HistGradientBoostingClassifier
    fold = folds_of(y, task, kind, seed)

    def staged(rows, X_new, task_new, means, rate, leaves, l2):
        train, new = np.column_stack([X, task])[rows], np.column_stack([X_new, task_new])
        if means:
            inner = folds_of(y[rows], task[rows], kind, seed + 1000)
            own = np.empty(len(train))
            for f in range(FOLDS):  # a row's own y is not in the mean it is given
                own[inner == f] = task_means(y[rows], task[rows], inner != f, task[rows][inner == f])
            train = np.column_stack([train, own])
            new = np.column_stack([new, task_means(y[rows], task[rows], slice(None), task_new)])
        model = make(
            learning_rate=rate,
            max_leaf_nodes=leaves,
            l2_regularization=l2,
            early_stopping=False,
            categorical_features=[X.shape[1]],
            random_state=seed,
        ).fit(train, y[rows])
        rounds = model.staged_predict if kind == "regression" else model.staged_decision_function
        return np.stack([np.ravel(scores) for scores in rounds(new)])

    best = np.inf
    for means, (rate, leaves), l2 in product((False, True), ((0.15, 3), (0.08, 8)), (1.0, 30.0)):
        total = 0.0
        for f in range(FOLDS):
            scores = staged(fold != f, X[fold == f], task[fold == f], means, rate, leaves, l2)
            total += np.sum(losses(scores, y[fold == f], kind), axis=1)
        if total.min() < best:
            best, chosen, rounds = total.min(), (means, rate, leaves, l2), np.argmin(total)
    return staged(np.full(len(y), True), X_test, task_test, *chosen)[rounds]


def task_means(y, task, rows, wanted, pseudo=4.0):
    """The mean y of these tasks over some rows, with a few rows at the mean of all added to each."""
    size, middle = 1 + max(task.max(), wanted.max()), y[rows].mean()
    sums, counts = np.bincount(task[rows], y[rows], size), np.bincount(task[rows], minlength=size)
    return ((sums + pseudo * middle) / (counts + pseudo))[wanted]


# --- ELLA -------------------------------------------------------------------------------------------------------------


def ella(*given):
    """Ruvolo and Eaton (2013): tasks one after another, theta_t = L s_t.

    Candidates: k, mu, lambda, and the strength on the slopes of the single-task models.
    """

    def fit(stack, rows, grid):
        made = np.empty((len(grid), len(stack.X), stack.X.shape[2]))
        for k, slope in {candidate[:2] for candidate in grid}:  # those of the same shape side by side
            chosen = [i for i, candidate in enumerate(grid) if candidate[:2] == (k, slope)]
            mu, ridge = np.array([grid[i][2:] for i in chosen]).T
            theta, D = single_tasks(stack, rows, strengths(stack, slope, 1.0))
            made[chosen] = ella_stream(theta, D, k, mu, ridge, np.random.default_rng([given[-1], 2]))
        return made

    rates = [(np.exp(-5.0), np.exp(-8.0)), (np.exp(-5.0), np.exp(-2.0))]
    return tuned(fit, [(k, slope, *pair) for k, slope, pair in product((1, 2, 3), (1.0, 5.0), rates)], *given)


def single_tasks(stack, rows, strength):
    """theta_t, a ridge or logistic regression a task, and D_t, the Hessian of its mean loss there."""
    theta = penalised(stack, rows, own_strength=strength)
    count = np.maximum(rows.sum(axis=1), 1)[:, None, None]
    return theta, (stack.gram(rows, theta)[0] + np.diag(strength)) / count


def ella_stream(theta, D, k, mu, ridge, rng):
    """Algorithm 1: every task's s_t once, by lasso against L; then L from its (A / T + lambda I) vec(L) = b / T."""
    (tasks, p), many = theta.shape, len(mu)
    L, S = np.tile(rng.standard_normal((p, k)), (many, 1, 1)), np.zeros((many, tasks, k))
    A, b = np.zeros((many, k, p, k, p)), np.zeros((many, k, p))
    for t in range(tasks):
        weighted = L.transpose(0, 2, 1) @ D[t]
        s = S[:, t] = lasso(weighted @ L, weighted @ theta[t], mu)
        A += (s[:, :, None] * s[:, None, :])[:, :, None, :, None] * D[t][:, None, :]
        b += s[:, :, None] * (D[t] @ theta[t])
        system = A.reshape(many, k * p, k * p) / (t + 1) + ridge[:, None, None] * np.eye(k * p)
        L = np.linalg.solve(system, b.reshape(many, k * p, 1) / (t + 1)).reshape(many, k, p).transpose(0, 2, 1)
        dead = np.all(np.abs(L) < 1e-8, axis=1, keepdims=True)
        L = np.where(dead, rng.standard_normal((p, k)), L)
    return np.einsum("cpk,ctk->ctp", L, S)


def lasso(Q, r, mu, sweeps=100):
    """A batch of argmin s' Q s - 2 r' s + mu |s|_1, by coordinate descent."""
    s = np.zeros_like(r)
    for _ in range(sweeps):
        before = s.copy()
        for j in range(r.shape[1]):
            rest = r[:, j] - np.sum(Q[:, j] * s, axis=1) + Q[:, j, j] * s[:, j]
            s[:, j] = np.sign(rest) * np.maximum(np.abs(rest) - mu / 2.0, 0.0) / np.maximum(Q[:, j, j], 1e-12)
        if np.max(np.abs(s - before)) <= 1e-4 * np.max(np.abs(s)):
            break
    return s
