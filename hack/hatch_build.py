"""The build hook: rewrites the README for a package index and adds the project's URLs.

A package index shows the README without the other files. The variable `KCP_PY_REPOSITORY_URL` names the repository at build time, such
as `https://git.example.com/platform/kcp-py`: relative links then lead there, and the metadata contains the project's URLs. Without it
relative links become plain text, so that no link is broken.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # only the functions are wanted
    MetadataHookInterface = object

VARIABLE: Final = "KCP_PY_REPOSITORY_URL"
_RELATIVE_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z][a-z0-9+.-]*:|#)([^)\s]+)\)")
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def published_readme(text: str, repository: str) -> str:
    """The README with absolute links; with plain text in their place where the repository is unknown (empty)."""
    pattern = rf"[\1]({repository}/blob/main/\2)" if repository else r"\1"
    # Blocks of code stay as they are: every second part is one.
    parts = _FENCE.split(text)
    parts[::2] = [_RELATIVE_LINK.sub(pattern, part) for part in parts[::2]]
    return "".join(parts)


def project_urls(repository: str) -> dict[str, str]:
    """The URLs of the metadata; none where the repository is unknown."""
    if not repository:
        return {}
    blob = f"{repository}/blob/main"
    return {
        "Homepage": repository,
        "Documentation": f"{blob}/docs/README.md",
        "Changelog": f"{blob}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


class CustomMetadataHook(MetadataHookInterface):  # type: ignore[misc]
    """What hatchling calls."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = os.environ.get(VARIABLE, "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": published_readme(text, repository)}
        metadata["urls"] = project_urls(repository)
