"""Check the documents: links lead to files and headings, and code that is marked as taken from a file stands there.

A block of code below `<!-- from PATH -->` has to be a part of that file, word for word.

python hack/verify_documents.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"^<!-- from (\S+) -->\n```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def main() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wrong = []
    for name in listed.stdout.split():
        document = ROOT / name
        wrong += [
            f"{name}: the code from {path} differs from the file"
            for path, code in QUOTED.findall(document.read_text("utf-8"))
            if code not in (ROOT / path).read_text("utf-8")
        ]
        wrong += [f"{name}: link to {link}: {reason}" for link in _links(document) if (reason := _fault(document, link))]
    if wrong:
        sys.exit("\n".join(wrong))


def _links(document: Path) -> list[str]:
    return LINK.findall(FENCE.sub("", document.read_text("utf-8")))


def _fault(document: Path, link: str) -> str | None:
    if re.match(r"[a-z]+:", link):
        return None
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    if not target.is_relative_to(ROOT):
        return "leads out of the repository"
    if not target.exists():
        return "no such file"
    if anchor and target.suffix == ".md" and anchor not in _anchors(target):
        return "no such heading"
    return None


def _anchors(document: Path) -> set[str]:
    headings = HEADING.findall(FENCE.sub("", document.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    main()
