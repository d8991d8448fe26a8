"""What a package index is told: links that work, and no dependency that only some users need."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")
EXAMPLE = "https://git.example.com/platform/kcp-py"


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hack" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("repository", ["", EXAMPLE])
def test_no_link_of_the_readme_is_relative(hook, repository):
    """On a package index every link is absolute or leads to a heading, whether the repository is known or not."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert any(not link.startswith(("https:", "#")) for link in LINK.findall(text))
    published = hook.published_readme(text, repository)
    assert [link for link in LINK.findall(published) if not link.startswith(("https:", "#"))] == []
    assert (f"{EXAMPLE}/blob/main/docs/operations.md" in published) is bool(repository)


def test_code_is_left_alone(hook):
    """A text that looks like a link inside a block of code is not a link."""
    text = "[a](b.md)\n```sh\n[a](b.md)\n```\n[c](d.md#e)\n"
    assert hook.published_readme(text, "") == "a\n```sh\n[a](b.md)\n```\nc\n"


def test_urls(hook):
    """The URLs of the metadata lead to the repository that the build names."""
    assert hook.project_urls("") == {}
    assert all(url.startswith(EXAMPLE) for url in hook.project_urls(EXAMPLE).values())


def test_the_etcd_driver_is_an_extra():
    """gRPC and protocol buffers are installed only by the extra `etcd` and for the tests."""
    names = {extra: {re.split(r"[<>=\[; ]", line)[0] for line in lines} for extra, lines in PROJECT["optional-dependencies"].items()}
    assert not {"grpcio", "protobuf"} & {re.split(r"[<>=\[; ]", line)[0] for line in PROJECT["dependencies"]}
    assert names["etcd"] == {"grpcio", "protobuf"}
    assert names["test"] >= names["etcd"] | names["explain"]
