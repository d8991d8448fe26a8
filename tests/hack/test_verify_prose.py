"""The style of prose in documents, docstrings and comments."""

from __future__ import annotations

import pytest

from hack.verify_prose import faults

PYTHON = '''"""A module.

It knows what is
stored.
"""

LIMIT = 1  # nobody reads it
"""The same as a string below a constant."""


def f():
    """The same."""
    text = "whoever writes what is stored in a string"
    # One comment on two lines, whose phrase told
    # of a thing ends on the second.
'''

CASES = {
    "Python": ("a.py", PYTHON, [(3, "what is"), (7, "nobody"), (8, "the same"), (12, "the same"), (14, "told of")]),
    "document": ("a.md", "# Title\n\nText `what is`.\n\n```\nnobody\n```\n\nThere is no such file. It is no file.\n", [(9, "is no")]),
    "link": ("a.md", "[a page](beside.md), and a page beside it\n", [(1, "beside")]),
    "comment of another language": ("a.go", "x := 1 // for whoever\nwhoever := 2\n", [(1, "whoever")]),
    "words within words": ("a.md", "Asides, mendacious and partly.\n", []),
}


@pytest.mark.parametrize(("name", "source", "wanted"), CASES.values(), ids=CASES)
def test_expressions_to_avoid_are_found_in_prose_alone(name: str, source: str, wanted: list[tuple[int, str]]) -> None:
    """Each is reported with its line; code, strings and links are not prose."""
    assert sorted((line, phrase) for line, phrase, _ in faults(name, source)) == wanted
