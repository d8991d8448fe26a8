"""Accept headers as upstream's parser sees them; the expectations were taken from that parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.server.accept import names_any_of, parse_accept


def order(header: str) -> list[str]:
    return [f"{clause.type}/{clause.subtype}" for clause in parse_accept(header)]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param("a/b", ["a/b"], id="one"),
        pytest.param("a/b,c/d", ["a/b", "c/d"], id="in order"),
        pytest.param("a/b;q=0.1, c/d", ["c/d", "a/b"], id="by quality"),
        pytest.param("a/b;q=0, c/d;q=-1", ["a/b", "c/d"], id="zero and less"),
        pytest.param("*/*, a/*, a/b;q=0.1", ["a/b", "a/*", "*/*"], id="wildcards last"),
        pytest.param("*", ["*/*"], id="asterisk"),
        pytest.param("a", [], id="no subtype"),
        pytest.param("a/", [], id="empty subtype"),
        pytest.param("/b", ["/b"], id="empty type"),
        pytest.param("a/b/c, a/b/", ["a/b"], id="too many slashes"),
        pytest.param(",,a/b,", ["a/b"], id="empty clauses"),
        pytest.param(" a / b ;q=1", ["a/b"], id="blanks"),
        pytest.param("\ta/b", ["\ta/b"], id="tabs are no blanks"),
        pytest.param("*/*," + ",".join(f"a/{n};q=0.{n}" for n in range(10, 30)), ["*/*", *(f"a/{n}" for n in range(29, 9, -1))], id="many"),
    ],
)
def test_order(header: str, expected: list[str]) -> None:
    """Clauses come in the order in which they are tried."""
    assert order(header) == expected


@pytest.mark.parametrize(
    ("header", "parameters"),
    [
        pytest.param("a/b;c=d", {"c": "d"}, id="one"),
        pytest.param("a/b; c = d ", {"c": "d"}, id="blanks"),
        pytest.param("a/b;c", {}, id="no value"),
        pytest.param("a/b;c=", {}, id="empty value"),
        pytest.param("a/b;c=d=", {"c": "d"}, id="equals sign at the end"),
        pytest.param("a/b;c=d=e", {}, id="two values"),
        pytest.param('a/b;c="d"', {"c": '"d"'}, id="quotes"),
        pytest.param("a/b;C=d;c=e", {"C": "d", "c": "e"}, id="case"),
        pytest.param("a/b;q=0.5;c=d", {"c": "d"}, id="quality is none"),
    ],
)
def test_parameters(header: str, parameters: dict[str, str]) -> None:
    """What stands behind a type."""
    (clause,) = parse_accept(header)
    assert clause.parameters == parameters


@pytest.mark.parametrize(
    ("text", "quality"),
    [
        ("1", 1.0),
        (".5", 0.5),
        ("5e-1", 0.5),
        ("x", 0.0),
        (" 1", 0.0),
        ("1 ;c=d", 0.0),
        ("1_0", 0.0),
        ("inf", float("inf")),
        ("\u0661", 0.0),
    ],
)
def test_quality(text: str, quality: float) -> None:
    """Qualities are Go's floating-point numbers, without bounds."""
    (clause,) = parse_accept(f"a/b;q={text}")
    assert clause.quality == quality


def test_routes() -> None:
    """A route looks for its types by name, or for any."""
    assert names_any_of("text/html, a/b;q=0", ("a/b",))
    assert names_any_of("text/html,*/*;q=0.8", ("a/b",))
    assert not names_any_of("a/*, *", ("a/b",))


@given(st.text(max_size=200))
def test_any_header(header: str) -> None:
    """No header is too strange, and sorting loses none of its clauses."""
    assert len(parse_accept(header)) <= header.count(",") + 1


def test_bounded() -> None:
    """A header of nothing but clauses costs no more than any other."""
    assert len(parse_accept("a/b," * 100_000)) <= 256
