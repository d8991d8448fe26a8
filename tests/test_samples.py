"""The samples of the library: short, in the tutorial, on a page of it, and run by a test."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from kcp_py.testing.round_trip import round_trip

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = "config/samples/library"
SAMPLES: Final = sorted(one.name for one in (ROOT / FOLDER).glob("*.py"))
LONGER: Final = {"postgresql_storage.py": 300}
"""A driver for a database has more to say."""
LINES: Final = 100

USES: Final = {
    "custom types without CRDs": "custom_types_only.py",
    "a type as a Python class, and its CRD": "foos.py",
    "versions over a hub": "foos.py",
    "subresources that answer with another kind": "base64_subresource.py",
    "a part of an object": "base64_subresource.py",
    "streams of built-in kinds": "pod_logs.py",
    "computed resources": "database_rows.py",
    "resources of another API": "proxied_usage.py",
    "resources backed by another type": "service_catalog.py",
    "admission, identity, fairness and quota": "inline_hooks.py",
    "a storage driver": "postgresql_storage.py",
    "a store around a store": "wrapped_storage.py",
    "an application around the API": "mounted.py",
    "a command line": "own_command.py",
    "controllers in the process and apart": "log_books.py",
    "an aggregated API server": "aggregated.py",
    "a caching proxy": "caching_proxy.py",
}
"""Use -> the sample that shows it. All samples are here."""


def test_each_use_has_a_sample() -> None:
    """And each sample has a use."""
    assert sorted({*USES.values()}) == SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_short(name: str) -> None:
    """An API of one's own takes 50 to 100 lines."""
    lines = (ROOT / FOLDER / name).read_text("utf-8").splitlines()
    assert len(lines) <= LONGER.get(name, LINES)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_have_pages(name: str) -> None:
    """The tutorial has the sample in a row, and the page of that row links to it, too."""
    rows = [line for line in (ROOT / "docs/library.md").read_text("utf-8").splitlines() if f"{FOLDER}/{name})" in line]
    pages = [page for row in rows for page in re.findall(r"\]\(([\w/-]+\.md)\) \|", row)]
    assert pages, f"{name} has no row in the tutorial of docs/library.md"
    assert any(f"{FOLDER}/{name}" in (ROOT / "docs" / page).read_text("utf-8") for page in pages)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_run(name: str) -> None:
    """By a test of the whole program."""
    texts = [one.read_text("utf-8") for one in (ROOT / "e2e").glob("test_*.py")]
    assert any(f'"{name}"' in text or f"/{name}" in text for text in texts)


def test_versions_of_the_sample_lose_nothing() -> None:
    """The helper that a program has for its own types makes objects of each version, converts them and compares."""
    spec = importlib.util.spec_from_file_location("foos_of_round_trip", ROOT / FOLDER / "foos.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["foos_of_round_trip"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    round_trip(module.Foo)
