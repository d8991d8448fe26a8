"""Check that docs/library/public-api.txt is what hack/update_public_api.py would write.

A difference is a change of the public interface. Write it down in CHANGELOG.md: below `Changed` or `Removed` where programs break, else
below `Added`. Then run the command that the message names.

python hack/verify_public_api.py
"""

from __future__ import annotations

import difflib
import sys

from update_public_api import SNAPSHOT, render


def main() -> None:
    """Exit with the lines that differ."""
    known, found = SNAPSHOT.read_text("utf-8").splitlines(), render().splitlines()
    if lines := [one for one in difflib.unified_diff(known, found, lineterm="", n=0) if one[:1] in "+-" and one[:3] not in {"+++", "---"}]:
        sys.exit("\n".join(["the public interface differs from docs/library/public-api.txt:", *lines, "", _ADVICE]))


_ADVICE = "if that is intended, write it down in CHANGELOG.md and run: python hack/update_public_api.py"

if __name__ == "__main__":
    main()
