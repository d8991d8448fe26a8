"""Check that CHANGELOG.md has the form of Keep a Changelog and agrees with the version of the package.

The first section is `[Unreleased]`, the next one is that of the version in kcp_py/_version.py, and older versions follow. A commit that has
a version tag is a release: the tag names that version, and nothing stands below `[Unreleased]`.

python hack/verify_changelog.py
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED: Final = "[Unreleased]"
KINDS: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Subsections, in their order: https://keepachangelog.com/en/1.1.0/."""
_RELEASE = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\] - (\S+)")


class Section(NamedTuple):
    """One section of level two."""

    heading: str
    kinds: list[str]
    """Headings of level three, in their order."""
    entries: int
    """Number of list items."""


def main() -> None:
    tags = subprocess.run(["git", "tag", "--points-at", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if wrong := faults(text, _version(), [tag for tag in tags if re.match(r"v\d", tag)]):
        sys.exit("\n".join(f"CHANGELOG.md: {fault}" for fault in wrong))


def _version() -> str:
    for node in ast.parse((ROOT / "kcp_py" / "_version.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    raise SystemExit("kcp_py/_version.py: has no version")


def faults(text: str, version: str, tags: Sequence[str]) -> list[str]:
    """The errors of a changelog.

    Args:
        text: the changelog.
        version: of the package.
        tags: version tags of the present commit.
    """
    sections = _sections(text)
    if not sections or sections[0].heading != UNRELEASED:
        return [f"the first section is not {UNRELEASED}"]
    wrong = [fault for section in sections for fault in _section_faults(section)]
    released = []
    for section in sections[1:]:
        found = _RELEASE.fullmatch(section.heading)
        if found is None or not _is_date(found[4]):
            wrong.append(f"heading is not '[MAJOR.MINOR.PATCH] - YYYY-MM-DD': {section.heading}")
            continue
        released.append(((int(found[1]), int(found[2]), int(found[3])), found[4]))
        if not section.entries:
            wrong.append(f"{section.heading}: has no entries")
    if released != sorted(released, reverse=True) or len({number for number, _ in released}) != len(released):
        wrong.append("versions are not in descending order")
    newest = ".".join(map(str, released[0][0])) if released else "none"
    if newest != version:
        wrong.append(f"the newest version is {newest}, that of the package {version}")
    for tag in tags:
        if tag != f"v{version}":
            wrong.append(f"the tag {tag} of this commit is not v{version}")
        if sections[0].entries:
            wrong.append(f"the tag {tag} names a commit with entries below {UNRELEASED}")
    return wrong


def _sections(text: str) -> list[Section]:
    sections: list[Section] = []
    for line in text.splitlines():
        if line.startswith("## "):
            sections.append(Section(line[3:], [], 0))
        elif sections and line.startswith("### "):
            sections[-1].kinds.append(line[4:])
        elif sections and line.startswith("- "):
            sections[-1] = sections[-1]._replace(entries=sections[-1].entries + 1)
    return sections


def _section_faults(section: Section) -> list[str]:
    unknown = [kind for kind in section.kinds if kind not in KINDS]
    if unknown:
        return [f"{section.heading}: unknown heading {kind}" for kind in unknown]
    if section.kinds != [kind for kind in KINDS if kind in section.kinds]:
        return [f"{section.heading}: the order is {', '.join(KINDS)}, each once"]
    return []


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


if __name__ == "__main__":
    main()
