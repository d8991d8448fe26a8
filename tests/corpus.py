"""Where the corpus of real definitions and objects is, and how its files are read."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
CACHE = REPOSITORY / ".cache" / "corpus"


def find_corpus() -> Path | None:
    """The folder named by KCP_PY_CORPUS, or `shared/corpus` in the parent directory of the repository."""
    named = os.environ.get("KCP_PY_CORPUS")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "corpus"
    return folder if folder.is_dir() else None


CORPUS = find_corpus()
TABLES = (CORPUS or Path("no corpus")) / "tables"
"""Tables of cases; a folder that does not exist where there is no corpus."""
needs_corpus = pytest.mark.skipif(CORPUS is None, reason="the corpus of real definitions is not on this machine")


class _JsonLoader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """YAML as JSON has it: dates stay text."""


_JsonLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _JsonLoader.yaml_implicit_resolvers.items()
}


def read(path: str) -> Any:
    """One YAML document of the corpus, as a server would have decoded it.

    Decoded documents are kept as JSON in the repository's `.cache`, because each process of the tests reads hundreds of them.
    """
    assert CORPUS is not None
    file = CORPUS / path
    state = file.stat()
    kept = CACHE / hashlib.sha256(f"{file} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()
    try:
        return json.loads(kept.read_text("utf-8"))
    except FileNotFoundError:
        data = file.read_bytes()
    # Keys become text on the way from YAML to JSON.
    text = json.dumps(yaml.load(gzip.decompress(data) if path.endswith(".gz") else data, Loader=_JsonLoader))
    CACHE.mkdir(parents=True, exist_ok=True)
    written = kept.with_suffix(f".{os.getpid()}")
    written.write_text(text, "utf-8")
    written.replace(kept)
    return json.loads(text)


def rows(index: str) -> list[dict[str, Any]]:
    """The rows of an index file."""
    assert CORPUS is not None
    return [json.loads(line) for line in (CORPUS / index).read_text().splitlines()]


@cache
def crd_in(path: str) -> dict[str, Any]:
    """A CRD, not to be changed."""
    crd: dict[str, Any] = read(path)
    return crd


def version_schema(path: str, version: str) -> dict[str, Any]:
    """The schema of one version of a CRD."""
    (schema,) = [item["schema"]["openAPIV3Schema"] for item in crd_in(path)["spec"]["versions"] if item["name"] == version]
    return dict(schema)
