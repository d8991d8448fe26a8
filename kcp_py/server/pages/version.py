"""What `/version` says: a Kubernetes version, by which clients decide what they may use, with this program's own after the plus sign."""

from __future__ import annotations

import platform
from functools import cache
from typing import Final

from kcp_py._version import __version__

MAJOR: Final = "1"
MINOR: Final = "37"
GIT_VERSION: Final = f"v{MAJOR}.{MINOR}.0+kcp-py-{__version__}"
"""A semantic version, as clients parse it."""

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@cache
def version_document() -> dict[str, str]:
    """The `version.Info` object of k8s.io/apimachinery."""
    machine = platform.machine()
    return {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(int(MINOR) - 1),
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{_ARCHITECTURES.get(machine, machine)}",
    }
