"""The look of everything people see: figures now, pages later."""

from .figures import COLORS, house_style, new_figure, save_figure
from .growth import growth_figure

__all__ = ["COLORS", "growth_figure", "house_style", "new_figure", "save_figure"]
