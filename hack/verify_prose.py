"""Check the style of documents, docstrings and comments: each sentence names its subject and uses the standard terms.

`PHRASES` has the expressions to avoid with their replacements. Code blocks and inline code are not read. `ALLOWED` has the exceptions with
their reasons.

    python hack/verify_prose.py [PATH ...]
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PHRASES = {
    r"somebody|someone|nobody|anybody|anyone|everybody|whoever|whomever": "name the client, the cluster, the caller",
    r"(?:told|tells?|telling|says?|said|saying|knows?|known|learns?) of": "report, describe, list",
    r"what (?:there )?(?:is|are|was|were)": "name the thing",
    r"(?<!there\s)(?:is|are|was|were) none": "is not",
    r"(?<!there\s)(?:is|are|was|were) no(?! longer| more| less| later| earlier)": "is not a, has no",
    r"aside|apart|afar|beside": "in a thread, separately, except, together with, compared with",
    r"as its like|this way or the other|of another making|at leisure|in vain": "say it plainly",
    r"mend(?:s|ed|ing)?": "repair, correct, fix",
    r"(?:un)?dress(?:es|ed)?|unborn": "with or without the fields that the server sets",
}
PHRASE = re.compile("|".join(r"(\b(?:" + words.replace(" ", r"\s+") + r")\b)" for words in PHRASES), re.IGNORECASE)
DEPENDENT = re.compile(r"\s*(?:The same\b|As `|As above|Of the last\b)")
"""How a docstring begins that cannot be read without its neighbour."""

ALLOWED: dict[str, dict[str, str]] = {
    "CONTRIBUTING.md": {"somebody": "an example of an expression to avoid", "what is": "an example of an expression to avoid"},
}
"""File -> phrase in lower case -> the reason why it is right there."""

GENERATED = ("docs/compatibility.md", "docs/corpus.md")

CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`|<!--.*?-->|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r"(?:^|\s)(?:#+|//) (.*)")


def main() -> None:
    files = [name for name in _tracked(sys.argv[1:]) if name not in GENERATED]
    wrong: list[str] = []
    unused = {(name, phrase) for name, phrases in ALLOWED.items() if name in files for phrase in phrases}
    for name in files:
        for line, phrase, instead in faults(name, (ROOT / name).read_text("utf-8")):
            if phrase in ALLOWED.get(name, {}):
                unused.discard((name, phrase))
            else:
                wrong.append(f"{name}:{line}: '{phrase}': {instead}")
    wrong += [f"hack/verify_prose.py: the exception '{phrase}' of {name} is not needed" for name, phrase in sorted(unused)]
    if wrong:
        sys.exit("\n".join(wrong))


def faults(name: str, source: str) -> Iterator[tuple[int, str, str]]:
    """The expressions to avoid in a file: line, expression in lower case, replacement.

    Args:
        name: the name of the file, which decides how its prose is found.
        source: the text of the file.
    """
    for start, text in _texts(name, source):
        prose = CODE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
        for found in PHRASE.finditer(prose):
            instead = list(PHRASES.values())[(found.lastindex or 1) - 1]
            yield start + text.count("\n", 0, found.start()), " ".join(found[0].lower().split()), instead
        if name.endswith(".py") and (found := DEPENDENT.match(text)):
            yield start, found[0].strip().lower(), "describe the thing without reference to its neighbour"


def _texts(name: str, source: str) -> Iterator[tuple[int, str]]:
    """The pieces of prose in a file, each with the number of its first line."""
    if name.endswith(".md"):
        yield 1, source
    elif name.endswith(".py"):
        yield from _docstrings(source)
        comments = [
            (token.start[0], token.string)
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        ]
        yield from _joined(comments)
    else:
        yield from _joined(
            (number, remark[0]) for number, line in enumerate(source.splitlines(), start=1) if (remark := REMARK.search(line))
        )


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Every string that is a statement of its own: docstrings of modules, classes and functions, and those below a constant."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def _joined(remarks: Iterator[tuple[int, str]] | list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Comments on consecutive lines as one text each."""
    first, lines = 0, list[str]()
    for number, remark in remarks:
        if lines and number != first + len(lines):
            yield first, "\n".join(lines)
            lines = []
        if not lines:
            first = number
        lines.append(remark.strip().lstrip("#/"))
    if lines:
        yield first, "\n".join(lines)


def _tracked(paths: list[str]) -> list[str]:
    patterns = paths or ["*.py", "*.md", "*.go", "*.yaml", "*.toml", "Makefile", ".ci/*"]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    return [name for name in listed if (ROOT / name).is_file() and Path(name).suffix in {".py", ".md", ".go", ".yaml", ".toml", ""}]


if __name__ == "__main__":
    main()
