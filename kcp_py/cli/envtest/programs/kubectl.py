"""The program in the place of kubectl where none was found: it runs one that has been installed since, or says that there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run the real kubectl, which does not return, or return an exit code."""
    own = Path(sys.argv[0]).absolute().parent
    for place in os.get_exec_path():
        found = Path(place).absolute() / "kubectl"
        if found.parent != own and os.access(found, os.X_OK):
            os.execv(found, [str(found), *arguments])  # noqa: S606 - no shell is needed
    sys.stderr.write("error: kubectl was not found when kcp-py envtest-assets ran: install kubectl and run it again\n")
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
