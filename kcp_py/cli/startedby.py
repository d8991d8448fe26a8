"""`STARTED_BY`: the parent of this process when the program began. `MESSAGE`: where a supervisor begins.

A command that ends with its parent imports for a while before it can watch it. The program imports this module before all others, so that
a parent that ends meanwhile is missed.
"""

from __future__ import annotations

import os
from typing import Final

STARTED_BY: Final = os.getppid()
"""A process id."""
MESSAGE: Final = "_KCP_PY_MESSAGE"
"""The variable of the environment with `PID:DESCRIPTOR`, for a message from the interpreter that this process had before."""
