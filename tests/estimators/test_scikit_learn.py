"""The manners of scikit-learn: its own checks, clones, pipelines, tables with names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.functions import ReLU
from everspan.scenarios import LinearStream

ESTIMATORS = [LifelongClassifier(), LifelongRegressor(), ClassIncrementalClassifier()]
NETWORKS = [LifelongClassifier(representation=ReLU(most=2, starts=1))]
REASONS = {
    "check_sample_weight_equivalence_on_dense_data": "which rows are set aside and remembered is drawn at random, "
    "a row of weight two once and two rows twice",
}


def _splits_by_chance(estimator):
    return isinstance(estimator, ClassIncrementalClassifier) or isinstance(estimator.representation, ReLU)


@parametrize_with_checks(
    ESTIMATORS + NETWORKS,
    expected_failed_checks=lambda estimator: REASONS if _splits_by_chance(estimator) else {},
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_parameters_survive_cloning_and_are_checked_when_used(estimator):
    changed = clone(estimator).set_params(epsilon=0.3, n_features=2)
    assert clone(changed).get_params() == changed.get_params()
    X, y = np.eye(4), np.array([0, 0, 1, 1])
    for name, value in [("epsilon", -1), ("n_features", 0), ("refiner", "pca"), ("check", "guess"), ("learner", "x")]:
        with pytest.raises(ValueError, match=name):
            clone(estimator).set_params(**{name: value}).fit(X, y)


def test_a_parameter_set_anew_is_used_anew():
    _name, X, y = LinearStream(d=10, k=2, tasks=1, rows=50)[0]
    model = LifelongClassifier().fit(X, y)
    model.set_params(epsilon=-1.0)
    with pytest.raises(ValueError, match="epsilon"):
        model.predict(X)


def test_names_of_columns_are_kept_and_checked():
    stream = LinearStream(d=4, k=2, tasks=2, rows=60)
    columns = ["age", "height", "weight", "dose"]
    model = LifelongClassifier()
    for name, X, y in stream:
        model.learn_task(pd.DataFrame(X, columns=columns), pd.Series(y), task=name)
    assert list(model.feature_names_in_) == columns
    plain = LifelongClassifier()
    for name, X, y in stream:
        plain.learn_task(X, y, task=name)
    _, X, _ = stream[1]
    table = pd.DataFrame(X, columns=columns)
    assert (model.predict(table, task="task 1") == plain.predict(X, task="task 1")).all()
    assert (model.predict(pl.DataFrame(table), task="task 1") == plain.predict(X, task="task 1")).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[columns[::-1]], task="task 1")
    with pytest.raises(ValueError, match="feature names"):
        model.learn_task(table.rename(columns={"dose": "dosis"}), np.sign(X[:, 0]), task="new")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_long_table_with_a_task_column_is_the_stream_of_its_tasks(kind):
    stream = LinearStream(d=6, k=2, tasks=4, rows=50, seed=3)
    one_by_one = LifelongClassifier()
    for name, X, y in stream:
        one_by_one.learn_task(X, y, task=name)
    X, y = np.vstack([task.X for task in stream]), np.concatenate([task.y for task in stream])
    names = np.repeat([task.name for task in stream], 50)
    order = np.concatenate([[0, 50, 100, 150], np.random.default_rng(0).permutation(200)])
    order = np.array(list(dict.fromkeys(order.tolist())))
    frame = kind({f"x{j}": X[order, j] for j in range(6)})
    column = kind({"task": names[order]})["task"]
    model = LifelongClassifier().fit(frame, y[order], tasks=column)
    assert model.tasks_ == one_by_one.tasks_
    assert [event.action for event in model.history_] == [event.action for event in one_by_one.history_]
    assert model.score(frame, y[order], tasks=column) > 0.9
    scores = model.score_tasks(frame, y[order], column)
    assert list(scores) == model.tasks_
    assert np.mean(list(scores.values())) == pytest.approx(model.score(frame, y[order], tasks=column))


def test_the_representation_in_a_pipeline_and_as_a_table():
    stream = LinearStream(d=30, k=2, tasks=8, rows=400, seed=1)
    model = LifelongClassifier()
    for name, X, y in stream[:7]:
        model.learn_task(X, y, task=name)
    _, X, y = stream[7]
    few = make_pipeline(model, LogisticRegression()).steps[0][1]
    Z = few.transform(X)
    small = LogisticRegression().fit(Z[:30], y[:30]).score(Z[30:], y[30:])
    large = LogisticRegression().fit(X[:30], y[:30]).score(X[30:], y[30:])
    assert small > large + 0.1, "thirty labels go further in the shared representation"
    frame = model.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == [f"lifelongclassifier{j}" for j in range(model.representation_.dimension)]


def test_cross_validation_with_the_task_column_routed():
    import sklearn

    stream = LinearStream(d=5, k=1, tasks=3, rows=40)
    X, y = np.vstack([task.X for task in stream]), np.concatenate([task.y for task in stream])
    names = np.tile(np.arange(3), 40)
    with sklearn.config_context(enable_metadata_routing=True):
        model = LifelongClassifier().set_fit_request(tasks=True).set_score_request(tasks=True)
        scores = cross_val_score(model, X, y, params={"tasks": names}, cv=3)
    assert np.isfinite(scores).all()
    scaled = make_pipeline(StandardScaler(), LifelongRegressor()).fit(X, X[:, 0])
    assert scaled.score(X, X[:, 0]) > 0.99


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_sparse_rows_are_refused_clearly(estimator):
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        clone(estimator).fit(sparse.eye(6, format="csr"), np.array([0, 1] * 3))
