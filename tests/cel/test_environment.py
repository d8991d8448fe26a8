"""Libraries are joined into what an expression may use."""

from __future__ import annotations

import pytest

from kcp_py.cel.declarations import Function, Library, Macro, Overload
from kcp_py.cel.environment import Environment
from kcp_py.cel.types import BOOL, INT, STRING

ONE = Library("one", functions=(Function("f", (Overload("f_int", (INT,), BOOL),)),), types={"int": INT})
TWO = Library("two", functions=(Function("f", (Overload("f_string", (STRING,), BOOL),)),))


def test_overloads_of_several_libraries_are_joined() -> None:
    """A function has the overloads of all libraries, earlier ones first."""
    environment = Environment({"self": INT}, [ONE, TWO])
    assert [overload.id for overload in environment.functions["f"].overloads] == ["f_int", "f_string"]
    assert environment.types == {"int": INT}


def test_other_variables_share_the_rest() -> None:
    """An environment with other variables costs no new tables."""
    environment = Environment({"self": INT}, [ONE])
    other = environment.with_variables({"object": STRING})
    assert other.variables == {"object": STRING}
    assert environment.variables == {"self": INT}
    assert other.functions is environment.functions


def test_one_overload_is_declared_once() -> None:
    """Two libraries that declare the same overload are an error of the environment."""
    with pytest.raises(ValueError, match="f_int"):
        Environment({}, [ONE, ONE])


def test_one_macro_is_declared_once() -> None:
    """So are two macros of one form."""
    macro = Macro("m", 1, receiver=False, expand=lambda *_: None)
    with pytest.raises(ValueError, match="macro m"):
        Environment({}, [Library("a", macros=(macro,)), Library("b", macros=(macro,))])
