"""Manifests on disk: files, the documents in them, and the lines at which these begin."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from kcp_py.apimachinery.serializer.json.codec import decode_json_strict
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict
from kcp_py.apimachinery.serializer.yaml.positions import Position, positions
from kcp_py.cli.exits import UsageError

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"
LARGEST_FILE: Final = 64 * 2**20
"""Bytes of a file that is read: devices and pipes may have no end, and no server takes an object of this size."""


@dataclass(frozen=True)
class Document:
    """One document of a file."""

    file: str
    first_line: int
    """Of the document in the file, counted from one."""
    body: bytes
    media: Literal["json", "yaml"]
    prefix: str = ""
    """Path of the object in the document, of an element of a List: `items[0]`."""
    place: Document | None = None
    """The document that the object is an element of, where it is one."""

    def decode(self) -> tuple[Any, list[str]]:
        """The value, and what strict decoding has against it.

        Raises:
            DecodeError: not YAML or JSON.
        """
        return decode_json_strict(self.body) if self.media == "json" else decode_yaml_strict(self.body)

    def line(self, path: str) -> int:
        """The line in the file of a field."""
        if self.place is not None:
            return self.place.line(f"{self.prefix}.{path}" if path else self.prefix)
        return self.first_line - 1 + self._positions.find(path).line

    @cached_property
    def _positions(self) -> Position:
        return positions(self.body)


def find_files(paths: Iterable[str]) -> Iterator[str]:
    """The files that paths stand for: themselves, and of directories everything that ends as manifests do, in order.

    Raises:
        UsageError: a path does not exist, or a directory has no manifest.
    """
    for path in paths:
        if path == STDIN:
            yield path
            continue
        if not Path(path).is_dir():
            if not Path(path).exists():
                raise UsageError(f"{path}: No such file or directory")
            yield path
            continue
        found = sorted(
            str(file) for file in Path(path).rglob("*") if file.suffix in SUFFIXES and file.is_file() and not _hidden(file, path)
        )
        if not found:
            raise UsageError(f"{path}: no file in it ends with {', '.join(SUFFIXES)}")
        yield from found


def read_documents(file: str) -> Iterator[Document]:
    """The documents of a file that are not empty.

    Raises:
        UsageError: the file cannot be read, or has more than `LARGEST_FILE` bytes.
    """
    name = "<stdin>" if file == STDIN else file
    try:
        content = _read(file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    if len(content) > LARGEST_FILE:
        raise UsageError(f"{name}: larger than {LARGEST_FILE >> 20} MiB: split it into several files")
    content = content.removeprefix(b"\xef\xbb\xbf")
    if file.endswith(".json"):
        yield Document(name, 1, content, "json")
        return
    for line, body in split(content):
        yield Document(name, line, body, "yaml")


def _read(file: str) -> bytes:
    """The content of a file, at most one byte more than `LARGEST_FILE`."""
    if file != STDIN:
        with Path(file).open("rb") as opened:
            return opened.read(LARGEST_FILE + 1)
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    return sys.stdin.buffer.read(LARGEST_FILE + 1)


def split(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The documents of a YAML stream with their first lines, as kubectl separates them: by lines that begin with three dashes.

    Comments and blank lines alone do not make a document.
    """
    first, lines = 1, list[bytes]()
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.startswith(b"---") and not line[3:4].strip():
            if _has_content(lines):
                yield first, b"\n".join(lines)
            first, lines = number, [b"   " + line[3:]]
        else:
            lines.append(line)
    if _has_content(lines):
        yield first, b"\n".join(lines)


def elements(document: Document, value: Any) -> Iterator[Document]:
    """The objects of a `List` as documents of their own; the document itself where it is another object."""
    items = value.get("items") if isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) == ("v1", "List") else None
    if not isinstance(items, list):
        yield document
        return
    for index, item in enumerate(items):
        yield Document(document.file, document.first_line, json.dumps(item).encode(), "json", f"items[{index}]", document)


def _has_content(lines: list[bytes]) -> bool:
    return any((text := line.strip()) and not text.startswith((b"#", b"%", b"...")) for line in lines)


def _hidden(file: Path, root: str) -> bool:
    return any(part.startswith(".") for part in file.relative_to(root).parts)
