"""Check the documents: every relative link leads to a file, and to a heading where it names one.

python hack/verify_documents.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def main() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wrong = []
    for name in listed.stdout.split():
        document = ROOT / name
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
