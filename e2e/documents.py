"""The blocks of code in the documents, and how each is tried.

A block is tried by its language:

- `sh`: the commands succeed. A `text` block directly below is what they print.
- `console`: what a line with `$` prints is the text below it. A line `…` stands for any lines.
- `python`: the code runs. Blocks of a page share their names, and `await` is allowed.
- `yaml`: an object of a Kubernetes API is accepted by a server, a ServerConfiguration by the program. Of other configurations, and of what
  has no kind, only the syntax is checked.
- `json`: the syntax is correct, one document or one for each line. `toml`: the syntax is correct.
- without a language, `text`, `mermaid` and `{directive}`: no code.

A comment directly above a block says otherwise:

- `<!-- from PATH -->`: the block is a part of a file that tests run (`hack/verify_documents.py` compares them).
- `<!-- not run: REASON -->`: nothing here can try it.
- `<!-- setup: COMMANDS -->`, which may have several lines: commands that run first and are not shown.
- `<!-- names: CODE -->`: Python that runs first and is not shown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
NO_CODE: Final = frozenset({"", "text", "mermaid"})
_BLOCK: Final = re.compile(
    r"(?P<comments>(?:^<!--(?:(?!-->).)*-->\n)*)^```(?P<language>[\w{}-]*)\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL
)
_COMMENT: Final = re.compile(r"<!-- *(from|not run:|setup:|names:)\s*((?:(?!-->).)*?)\s*-->", re.DOTALL)


class Block(NamedTuple):
    """One block of a document."""

    line: int
    language: str
    code: str
    setup: str
    """Commands that run before it."""
    names: str
    """Python that runs before it."""
    excused: str
    """Why it is not tried here; empty where it is."""
    printed: str | None
    """The `text` block directly below."""


def pages() -> list[str]:
    """The documents with code, by their paths in the repository; decision records have none that runs."""
    found = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]
    return [
        str(path.relative_to(ROOT)) for path in found if "adr" not in path.parts and any(not block.excused for block in blocks_of(path))
    ]


def blocks_of(path: Path) -> list[Block]:
    """The blocks of a document that are code."""
    text = path.read_text("utf-8")
    found = []
    matches = list(_BLOCK.finditer(text))
    for index, match in enumerate(matches):
        language = match["language"]
        if language in NO_CODE or language.startswith("{"):
            continue
        marks = dict(_COMMENT.findall(match["comments"]))
        following = matches[index + 1] if index + 1 < len(matches) else None
        adjacent = following is not None and following["language"] == "text" and following.start() == match.end()
        excused = f"a part of {marks['from']}" if "from" in marks else marks.get("not run:", "")
        line = text.count("\n", 0, match.start("language")) + 1
        printed = following["code"] if adjacent and following is not None else None
        found.append(Block(line, language, match["code"], marks.get("setup:", ""), marks.get("names:", ""), excused, printed))
    return found
