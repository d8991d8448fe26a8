"""Check the documents: links, quoted code and the form of decision records.

- A link leads to a file of the repository, and its anchor to a heading of that file.
- A test in the form `FILE::NAME` exists.
- A block of code below `<!-- from PATH -->` is a verbatim part of that file.
- A decision record in `docs/adr/` has a number, a title, a status with a date, and the sections of `docs/adr/template.md`.
  `docs/adr/README.md` lists it with the same title and status.

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
TEST = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)::(\w+)`")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
RECORDS = ROOT / "docs" / "adr"
RECORD = re.compile(r"# (?P<number>\d+)\. (?P<title>.+)\n\nStatus: (?P<status>proposed|accepted|replaced by \d+), \d{4}-\d{2}-\d{2}\.\n")
SECTION = re.compile(r"^## (.+)\n\n\S", re.MULTILINE)


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
        wrong += [
            f"{name}: there is no test {path}::{test}"
            for path, test in TEST.findall(document.read_text("utf-8"))
            if not _exists(path, test)
        ]
    index = (RECORDS / "README.md").read_text("utf-8")
    sections = SECTION.findall((RECORDS / "template.md").read_text("utf-8"))
    for record in sorted(RECORDS.glob("[0-9]*.md")):
        faults = _faults_of_record(record.name, record.read_text("utf-8"), sections, index)
        wrong += [f"{record.relative_to(ROOT)}: {fault}" for fault in faults]
    if wrong:
        sys.exit("\n".join(wrong))


def _exists(path: str, test: str) -> bool:
    file = ROOT / path
    return file.is_file() and re.search(rf"^(async )?def {test}\(", file.read_text("utf-8"), re.MULTILINE) is not None


def _faults_of_record(name: str, text: str, sections: list[str], index: str) -> list[str]:
    """What a decision record lacks, as messages: the opening lines, a section that is not empty, its row in the index."""
    faults = []
    opening = RECORD.match(text)
    if opening is None:
        faults.append("does not begin with `# NUMBER. TITLE` and `Status: proposed|accepted|replaced by N, YYYY-MM-DD.`")
    else:
        number, title, status = int(opening["number"]), opening["title"], opening["status"]
        if not name.startswith(f"{number:04}-"):
            faults.append(f"the number {number} differs from the file name")
        if f"| {number} | [{title}]({name}) | {status} |" not in index:
            faults.append(f"README.md has no row `| {number} | [{title}]({name}) | {status} |`")
    if (present := SECTION.findall(text)) != sections:
        faults.append(f"has the sections {', '.join(present)} instead of {', '.join(sections)}")
    return faults


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
