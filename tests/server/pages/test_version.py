from __future__ import annotations

import re

from kcp_py._version import __version__
from kcp_py.server.pages.version import version_document

# The expression of semver.org.
SEMANTIC = re.compile(
    r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)


def test_version():
    """The version is one that clients can parse and compare with Kubernetes', and names this program's own."""
    document = version_document()
    parsed = SEMANTIC.fullmatch(document["gitVersion"])
    assert parsed
    assert (parsed[1], parsed[2]) == (document["major"], document["minor"]) == ("1", "37")
    assert parsed[5] == f"kcp-py-{__version__}"
    assert document["minor"].isdigit()
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= document.keys()
    assert all(isinstance(value, str) for value in document.values())
