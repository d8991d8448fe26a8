"""Which type fits where, and what becomes of type variables."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kcp_py.cel.types import (
    BOOL,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    object_of,
    opaque,
    optional_of,
    type_of,
    type_parameter,
)
from kcp_py.cel.unification import Substitution, TypeTooLargeError

A, B = type_parameter("A"), type_parameter("B")
POD = object_of("Pod", {})


@pytest.mark.parametrize(
    ("given", "wanted", "fits"),
    [
        (INT, INT, True),
        (INT, UINT, False),
        (INT, DOUBLE, False),
        (INT, DYN, True),
        (DYN, INT, True),
        (NULL, INT, False),
        (NULL, TIMESTAMP, True),
        (NULL, DURATION, True),
        (POD, NULL, True),
        (NULL, opaque("q"), True),
        (NULL, list_of(INT), False),
        (list_of(INT), list_of(INT), True),
        (list_of(INT), list_of(STRING), False),
        (list_of(DYN), list_of(STRING), True),
        (map_of(STRING, INT), map_of(STRING, DYN), True),
        (map_of(STRING, INT), map_of(INT, INT), False),
        (type_of(INT), type_of(STRING), True),
        (POD, object_of("Pod", {}), True),
        (POD, object_of("Node", {}), False),
        (opaque("q", INT), opaque("q", STRING), False),
        (opaque("q"), opaque("r"), False),
        (INT, A, True),
        (A, INT, True),
        (A, list_of(A), False),
    ],
)
def test_assignable(given: Type, wanted: Type, *, fits: bool) -> None:
    """A type fits another when they are the same where both are known; null fits what can be absent."""
    assert Substitution().assign((given,), (wanted,)) is fits


def test_numbers_of_arguments_count() -> None:
    """Fewer arguments fit no signature."""
    assert not Substitution().assign((INT,), (INT, INT))


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ((INT, INT), INT),
        ((INT, DYN), DYN),
        ((DYN, INT), DYN),
        ((list_of(INT), list_of(DYN)), list_of(DYN)),
        ((list_of(DYN), list_of(INT)), list_of(DYN)),
    ],
)
def test_variables_become_the_more_general(given: tuple[Type, Type], result: Type) -> None:
    """A variable that stands for two types stands for the one that takes in the other."""
    substitution = Substitution()
    one, other, kind = substitution.instance((A, A, A))
    assert substitution.assign(given, (one, other))
    assert substitution.of(kind) == result


def test_what_does_not_fit_leaves_nothing_behind() -> None:
    """A signature that fits only in part binds no variable."""
    substitution = Substitution()
    (variable,) = substitution.instance((A,))
    assert not substitution.assign((INT, STRING), (variable, BOOL))
    assert substitution.of(variable) == variable
    assert substitution.of(variable, free_as_dyn=True) == DYN


def test_instances_are_apart() -> None:
    """Two uses of one signature have different variables, inside of one they are the same."""
    substitution = Substitution()
    first, nested, other = substitution.instance((A, list_of(A), B))
    (again,) = substitution.instance((A,))
    assert nested == list_of(first)
    assert len({first, other, again}) == 3
    assert nested.generic
    assert not list_of(INT).generic


@pytest.mark.parametrize(
    ("kinds", "joined"),
    [
        ((INT, INT), INT),
        ((INT, STRING), DYN),
        ((INT, DYN), DYN),
        ((NULL, POD), POD),
        ((POD, NULL), POD),
        ((optional_of(DYN), optional_of(INT)), optional_of(DYN)),
        ((optional_of(INT), optional_of(DYN)), optional_of(DYN)),
    ],
)
def test_join(kinds: tuple[Type, Type], joined: Type) -> None:
    """The elements of a literal have the type that takes in all of them."""
    substitution = Substitution()
    assert substitution.join(substitution.join(None, kinds[0]), kinds[1]) == joined


def test_long_chains_of_variables_are_followed_once() -> None:
    """Thousands of variables that stand for one another take steps in proportion to their number."""
    substitution = Substitution()
    known: Type = substitution.variable()
    for _ in range(5_000):
        known = substitution.join(known, substitution.variable())
    assert substitution.assign((INT,), (known,))
    assert substitution.of(known) == INT
    assert substitution.steps < 5 * 5_000


def test_what_failed_leaves_nothing_behind() -> None:
    """An assignment that fails puts variables back, also those that it bound anew."""
    substitution = Substitution()
    one, other = substitution.variable(), substitution.variable()
    assert substitution.assign((list_of(one),), (list_of(other),))
    assert not substitution.assign((one, other, INT), (STRING, STRING, STRING))
    assert substitution.of(one, free_as_dyn=True) == DYN
    assert substitution.assign((one, other), (INT, INT))
    assert substitution.of(other) == INT


def test_types_that_double_are_refused() -> None:
    """A type that holds another twice, again and again, is small to write down and endless to walk."""
    substitution = Substitution()
    kind: Type = INT
    for _ in range(60):
        kind = map_of(kind, kind)
    assert kind.size == 2**61 - 1
    with pytest.raises(TypeTooLargeError):
        substitution.checked(kind)
    variables = [substitution.variable() for _ in range(60)]
    for one, following in pairwise(variables):
        assert substitution.assign((one,), (map_of(following, following),))
    with pytest.raises(TypeTooLargeError):
        substitution.of(variables[0])
