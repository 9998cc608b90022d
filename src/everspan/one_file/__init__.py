"""What the command line does with one-file models: learn tables into them, predict, show, report, forget, export."""

from ._care import Checked, backup, check, compact
from ._exporting import export
from ._forgetting import Forgotten, forget, rebuild
from ._learning import Learned, learn, preparation_of, tasks_of
from ._opening import named, open_model
from ._predicting import Predicted, predict
from ._reporting import report
from ._seen import digests, new_rows, with_rows
from ._showing import event_lines, overview, overview_lines, size_of, task_events, wanting_lines

__all__ = [
    "Checked",
    "Forgotten",
    "Learned",
    "Predicted",
    "backup",
    "check",
    "compact",
    "digests",
    "event_lines",
    "export",
    "forget",
    "learn",
    "named",
    "new_rows",
    "open_model",
    "overview",
    "overview_lines",
    "predict",
    "preparation_of",
    "rebuild",
    "report",
    "size_of",
    "task_events",
    "tasks_of",
    "wanting_lines",
    "with_rows",
]
