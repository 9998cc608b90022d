"""``python3 -m everspan.deep``: the flags of ``everspan incremental``, with torch and numpy alone."""

import sys

from ..streams import while_read
from . import start

with while_read():
    code = start(sys.argv[1:], prog="python3 -m everspan.deep")
sys.exit(code)
