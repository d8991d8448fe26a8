"""Tests mirror modules one to one, with reasoned exceptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.verify_tests import Row, foreign, has_behaviour, untested

FUNCTION = "def f():\n    return 1\n"


def tree(root: Path, *paths: str) -> Path:
    """Modules with a function, and tests."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(FUNCTION)
    (root / "tests").mkdir(exist_ok=True)
    return root


def test_a_module_has_a_test_of_its_name(tmp_path: Path) -> None:
    """In the folder of its package; an aspect of it may have one, too."""
    root = tree(tmp_path, "kcp_py/a/b.py", "tests/a/test_b.py", "kcp_py/a/c.py", "tests/a/test_c_fast.py", "tests/a/test_b_slow.py")
    assert untested(root, {}) == foreign(root, {}) == []


def test_a_module_without_a_test_is_a_fault(tmp_path: Path) -> None:
    """A test of its name in another folder does not count."""
    root = tree(tmp_path, "kcp_py/a/b.py", "tests/test_b.py")
    assert untested(root, {}) == ["kcp_py/a/b.py: needs tests/a/test_b.py, or a row in ELSEWHERE of hack/verify_tests.py"]


def test_a_test_without_a_module_is_a_fault(tmp_path: Path) -> None:
    """Where a module was moved, its test has to follow."""
    root = tree(tmp_path, "kcp_py/a/b.py", "tests/a/test_c.py", "tests/hack/test_d.py", "tests/test_e.py")
    assert foreign(root, {}) == [
        "tests/a/test_c.py: there is no kcp_py/a/c.py; rename it, or add it to SUITES of hack/verify_tests.py",
    ]
    assert foreign(root, {"a": ("c", "a suite")}) == foreign(root, {"a": ("*", "suites")}) == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (Row("c", "a/test_d", "together"), None),
        (Row("c", "a", "together"), None),
        (Row("c", "a/test_x", "together"), "hack/verify_tests.py: ELSEWHERE names tests/a/test_x, which does not exist"),
        (Row("c d", "a/test_d", "together"), "hack/verify_tests.py: a/d has tests of its own, its entry in ELSEWHERE can go"),
        (Row("c x", "a/test_d", "together"), "hack/verify_tests.py: there is no module a/x, its entry in ELSEWHERE can go"),
    ],
    ids=["another test", "a folder of tests", "no such test", "a test of its own", "no such module"],
)
def test_rows_are_needed_and_right(tmp_path: Path, row: Row, fault: str | None) -> None:
    """A stale exception would hide a module that has lost its test."""
    root = tree(tmp_path, "kcp_py/a/c.py", "kcp_py/a/d.py", "tests/a/test_d.py")
    assert untested(root, {"a": [row]}) == ([fault] if fault else [])


def test_suites_that_are_gone_are_faults(tmp_path: Path) -> None:
    """Also where any suite is allowed in a folder."""
    root = tree(tmp_path, "kcp_py/a/b.py", "tests/a/test_b.py")
    assert foreign(root, {"a": ("c", "a suite")}) == ["hack/verify_tests.py: a/c in SUITES can go"]
    assert foreign(root, {"a": ("*", "suites")}) == ["hack/verify_tests.py: a/* in SUITES can go"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("X = 1\n", False),
        ("class A:\n    x: int\n", False),
        ('class P:\n    def m(self) -> int:\n        """Text."""\n', False),
        ("class P:\n    def m(self) -> int: ...\n", False),
        (FUNCTION, True),
        ("class A:\n    async def m(self):\n        await x\n", True),
    ],
)
def test_only_functions_with_a_body_are_behaviour(source: str, expected: bool) -> None:  # noqa: FBT001
    """Constants, types and protocols need no test."""
    assert has_behaviour(source) is expected
