"""What people look at: plots, and later the self-contained HTML page."""

from .figures import COLORS, house_style, new_figure, save_figure

__all__ = ["COLORS", "house_style", "new_figure", "save_figure"]
