"""``python3 -m everspan.deep``: the flags of ``everspan incremental``, with torch and numpy alone."""

import sys

from ..streams import signals_end_in_order, while_read
from . import start

with while_read(), signals_end_in_order() as ending:
    code = ending.code(start(sys.argv[1:], prog="python3 -m everspan.deep"))
sys.exit(code)
