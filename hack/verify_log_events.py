"""Check that docs/logs.md is what hack/update_log_events.py would write, and that the table names exactly the events that the code logs.

python hack/verify_log_events.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from update_log_events import TABLE, render

from tests.telemetry.logged import faults

if found := faults():
    sys.exit("\n".join(found))
if not TABLE.exists() or TABLE.read_text("utf-8") != render():
    sys.exit("docs/logs.md does not match the table of events: run `make update`")
