"""Check the documentation site that `make docs` has built: links, anchors, titles, the search index and the reference of the API.

Sphinx checks the links that it resolves itself. This looks at the pages as a browser gets them, without a network.

python hack/check_site.py build/docs
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

GENERATED: Final = frozenset(("genindex.html", "search.html", "py-modindex.html", "index.html"))
"""Pages without a text of their own."""
SHORTEST: Final = 200
"""Characters that a page has at least."""
_LINKS: Final = {"a": "href", "link": "href", "img": "src", "script": "src"}


class Page(HTMLParser):
    """The links, anchors, title and text of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.title = ""
        self.text = 0
        self._open: list[str] = []
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._open.append(tag)
        self.anchors.update(value for name in ("id", "name") if (value := found.get(name)))
        if tag in _LINKS and (link := found.get(_LINKS[tag])):
            self.links.add(link)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "title" in self._open and "svg" not in self._open:
            self.title += data
        elif "article" in self._open and not {"script", "style"} & set(self._open):
            self.text += len(data.strip())


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    pages = {file: Page(file) for file in sorted(site.rglob("*.html")) if "_static" not in file.parts}
    problems = [*dead_links(site, pages), *titles(site, pages), *search(site, pages), *reference(site, pages)]
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(bool(problems))


def dead_links(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Links to files and headings that are not there."""
    for file, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.is_relative_to(site) or not target.exists():
                yield f"{file.relative_to(site)}: dead link {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{file.relative_to(site)}: no such heading: {link}"


def titles(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Pages without a title or a text, and titles of two pages."""
    taken: dict[str, Path] = {}
    for file, page in pages.items():
        name = file.relative_to(site)
        if not page.title.strip():
            yield f"{name}: no title"
        if name.name in GENERATED and len(name.parts) == 1:
            continue
        if page.text < SHORTEST:
            yield f"{name}: an empty page"
        if (other := taken.setdefault(page.title, file)) != file:
            yield f"{name}: {other.relative_to(site)} has the same title: {page.title}"


def search(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Pages that the search does not find."""
    text = (site / "searchindex.js").read_text("utf-8")
    if not text.startswith("Search.setIndex("):
        yield "searchindex.js: not an index"
        return
    index = json.loads(text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))
    found = {f"{name}.html" for name in index["docnames"]}
    for file in pages:
        name = str(file.relative_to(site))
        if name not in found and name not in GENERATED:
            yield f"{name}: not in the search index"


def reference(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Public names without an entry."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import kcp_py  # noqa: PLC0415 - of this repository

    anchors = pages[site / "docs" / "api.html"].anchors
    ends = {anchor.rpartition(".")[2] for anchor in anchors}
    for name in kcp_py.__all__:
        if not name.startswith("_") and name not in ends and f"module-kcp_py.{name}" not in anchors:
            yield f"docs/api.html: no entry for {name}"


if __name__ == "__main__":
    main()
