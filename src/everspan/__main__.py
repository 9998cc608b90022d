"""``python -m everspan`` is the command line."""

from .cli import main

raise SystemExit(main())
