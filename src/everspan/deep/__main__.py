"""``python3 -m everspan.deep``: the flags of ``everspan incremental``, with torch and numpy alone."""

import sys

from .command import main

sys.exit(main(sys.argv[1:], prog="python3 -m everspan.deep"))
