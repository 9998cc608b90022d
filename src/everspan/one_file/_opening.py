"""A file whose kind of estimator it says itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..estimators import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from ..names import meanings
from ..store import StoreError, facts_of, reading

_KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (LifelongClassifier, LifelongRegressor, ClassIncrementalClassifier)
}


def open_model(path: str | Path) -> Any:
    """The estimator in a file, whichever it is.

    Examples
    --------
    >>> import tempfile
    >>> from everspan import LifelongRegressor
    >>> from everspan.one_file import open_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     LifelongRegressor().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]).save(f"{folder}/line.everspan")
    ...     model = open_model(f"{folder}/line.everspan")
    >>> type(model).__name__
    'LifelongRegressor'
    """
    with reading(path) as connection:
        kind = kind_of(facts_of(connection), path)
    return kind.load(path)


def kind_of(facts: dict[str, Any], path: str | Path) -> Any:
    """The class of the estimator that a file says it holds."""
    kind = _KINDS.get(str(facts["kind"]))
    if kind is None:
        raise StoreError(f"{path}: holds a kind of model that this everspan has not")
    return kind


def named(known: Any, text: str) -> Any:
    """The task that a user means by a text; the text where there is none."""
    return next((name for name in meanings(text) if name in known), text)
