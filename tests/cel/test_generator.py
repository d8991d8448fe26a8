"""Generated code: evaluated and skipped parts, and their names."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import BOOL, DOUBLE, DYN, INT, STRING, TIMESTAMP, Field, list_of, map_of, object_of
from kcp_py.cel.values import Timestamp
from tests.cel.evaluation import evaluate

SELF = object_of(
    "Self",
    {
        "__namespace__": Field(STRING, "namespace"),
        "ratio": Field(DOUBLE, "ratio"),
        "whens": Field(list_of(TIMESTAMP), "whens"),
        "set": Field(list_of(INT, list_type="set"), "set"),
        "map": Field(list_of(map_of(STRING, INT), list_type="map", list_keys=("k",)), "map"),
    },
)
DATA = {"namespace": "ns", "ratio": 1, "whens": ["1970-01-01T00:00:01Z"], "set": [1, 2], "map": [{"k": 1, "v": 1}]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("false && x.nope", False),
        ("x.nope && false", False),
        ("true || x.nope", True),
        ("x.nope || true", True),
        ("x.nope || x.nope2 || true", True),
        ("[0, 1].exists(e, 1 / e == 1)", True),
        ("[0, 1].all(e, 1 / e > 1)", False),
        ("true ? 1 : x.nope", 1),
        ("x.t ? [1].map(e, e + 1) : [2].map(e, 1 / 0)", [2]),
        ("[1, 2].map(e, [3, 4].map(f, e * f))", [[3, 4], [6, 8]]),
        ("[1, 2].map(e, [e].map(e, e + 1)[0] + e)", [3, 5]),
        ("[1, 2, 3].filter(e, e > 1).map(e, e * 2)", [4, 6]),
        ("[1, 2, 3].map(e, e > 1, e * 2)", [4, 6]),
        ("[1, 2].exists_one(e, e == 1)", True),
        ("{'a': 1}.all(k, k == 'a')", True),
        ("x.t && [1].all(e, x.t || [e].exists(f, f == 2))", True),
        ("'it\\'s \\\\ {0} %s' + \"\\n\"", "it's \\ {0} %s\n"),
        ("-(-1) + -2", -1),
        ("null == null", True),
        ("dyn(1) == null", False),
        ("null != dyn('a')", True),
        ("[1, 2][dyn(1)]", 2),
        ("type(1) == int && type(type(1)) == type", True),
        ("{'a': {'b': [1]}}.a.b[0]", 1),
    ],
)
def test_values(text: str, value: Any) -> None:
    """Errors are absorbed where something else decides, branches are evaluated alone, inner names hide outer ones."""
    assert evaluate(text, x={"t": True}) == value


@pytest.mark.parametrize("text", ["x.nope && true", "x.nope || false", "[0].all(e, 1 / e == 1)", "[0, 2].exists(e, 1 / e == 1)"])
def test_errors_that_nothing_absorbs(text: str) -> None:
    """Where nothing decides, the first error is the result."""
    with pytest.raises(EvaluationError):
        evaluate(text, x={})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.__namespace__", "ns"),
        ("has(self.__namespace__)", True),
        ("has(self.ratio) && self.ratio / 2.0 == 0.5", True),
        ("self.whens[0]", Timestamp(1_000_000_000)),
        ("self.set == [2, 1]", True),
        ("self.set != [2, 1]", False),
        ("self.set + [2, 3]", [1, 2, 3]),
        ("self.map + [{'k': 1, 'v': 2}]", [{"k": 1, "v": 2}]),
        ("1 in self.set", True),
    ],
)
def test_declared_objects(text: str, value: Any) -> None:
    """Fields are read under their JSON keys and as their types say, lists compared and joined as declared."""
    assert evaluate(text, {"self": SELF}, self=DATA) == value


def test_names_are_no_code() -> None:
    """Names of variables and fields that mean something to Python mean nothing here."""
    names = ["B", "ERRORS", "charged", "v1", "k0", "None", "len", "lambda", "def", "expression", "__import__"]
    for name in names:
        assert evaluate(f"{name} + 1", {name: INT}, **{name: 1}) == 2
        assert evaluate(f"[1].map({name}, {name} + 1)") == [2]
        assert evaluate(f"x.{name}", {"x": DYN}, x={name: 3}) == 3


def test_data_is_never_changed() -> None:
    """What an expression is given stays as it was."""
    data = {"set": [1, 2], "ratio": 1}
    assert evaluate("(self.set + [3]).size() == 3 && self.ratio == 1.0", {"self": SELF}, self=data) is True
    assert data == {"set": [1, 2], "ratio": 1}
    assert type(data["ratio"]) is int


def test_bool_is_what_it_is() -> None:
    """A condition of unknown type has to be a bool."""
    assert evaluate("b ? 1 : 2", {"b": BOOL}, b=True) == 1
    for text in ("x ? 1 : 2", "x && true", "[1].exists(e, x)", "[1].filter(e, x) == []"):
        with pytest.raises(EvaluationError, match="no such overload"):
            evaluate(text, x=1)
