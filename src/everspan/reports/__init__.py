"""The look of everything people see: figures and pages."""

from .figures import COLORS, house_style, new_figure, plain, save_figure
from .growth import growth_figure
from .page import Page

__all__ = ["COLORS", "Page", "growth_figure", "house_style", "new_figure", "plain", "save_figure"]
