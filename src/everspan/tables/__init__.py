"""Tables on disk with a task column: read, turned into numbers, and brought together task by task."""

from ._columns import FORGOTTEN, Column, Preparation
from ._files import MEMORY, TableError, TableFile
from ._grouping import Grouped
from ._scan import Scan, guess_columns

__all__ = [
    "FORGOTTEN",
    "MEMORY",
    "Column",
    "Grouped",
    "Preparation",
    "Scan",
    "TableError",
    "TableFile",
    "guess_columns",
]
