"""Check that docs/compatibility.md has a row for what each test marked `compatibility` exercises, and that all of them passed."""

from __future__ import annotations

import sys

from update_compatibility_table import PASSED, TABLE, collect, read, render

rows = {subject: (phrases, PASSED) for subject, phrases in sorted(collect().items())}
if not TABLE.exists() or TABLE.read_text("utf-8") != render(rows):
    known = read()
    different = [f"  {client} {version}" for (client, version), row in rows.items() if known.get((client, version)) != row]
    gone = [f"  {client} {version}, which no test is for" for client, version in known.keys() - rows.keys()]
    sys.exit("docs/compatibility.md does not match the tests: run hack/update_compatibility_table.py\n" + "\n".join(different + gone))
