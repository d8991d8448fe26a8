"""Quantities in expressions: upstream's unit tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.apimachinery.quantity import FORMAT_PROBLEM, SUFFIX_PROBLEM
from kcp_py.cel.errors import CompileError, EvaluationError
from kcp_py.cel.libraries.quantity import QUANTITY

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALUES = {
    "quantity('12Mi') == quantity('12Mi')": True,
    "isQuantity('20')": True,
    "isQuantity('20M')": True,
    "isQuantity('20Mi')": True,
    "isQuantity('1.3Gi')": True,
    "isQuantity('20Mo')": False,
    "isQuantity('10Mm')": False,
    "isQuantity('200K')": False,
    "isQuantity('1,3G')": False,
    "isQuantity('Three')": False,
    "isQuantity('Mi')": False,
    "isQuantity(' 1')": False,
    "quantity('200M') == quantity('0.2G') && quantity('0.2G') == quantity('200M')": True,
    "quantity('2M') == quantity('0.002G') && quantity('2000k') == quantity('2M')": True,
    "quantity('200M') == quantity('0.3G')": False,
    "quantity('200M') != quantity('0.3G')": True,
    "dyn(quantity('1k')) == dyn(quantity('1000'))": True,
    "dyn(quantity('1')) == dyn(1)": False,
    "quantity('50M').isLessThan(quantity('50Mi'))": True,
    "quantity('50M').isLessThan(quantity('100M'))": True,
    "quantity('100M').isLessThan(quantity('50M'))": False,
    "quantity('50Mi').isGreaterThan(quantity('50M'))": True,
    "quantity('50M').isGreaterThan(quantity('100M'))": False,
    "quantity('200M').compareTo(quantity('0.2G'))": 0,
    "quantity('50M').compareTo(quantity('50Mi'))": -1,
    "quantity('50Mi').compareTo(quantity('50M'))": 1,
    "quantity('50k').add(quantity('20')) == quantity('50.02k')": True,
    "quantity('50k').add(20).isLessThan(quantity('50020'))": False,
    "quantity('50k').sub(quantity('20')) == quantity('49.98k')": True,
    "quantity('50k').sub(20) == quantity('49980')": True,
    "quantity('70k') == quantity('50k').add(quantity('20k'))": True,
    "quantity('50k').add(20).sub(quantity('100k')).asInteger()": -49980,
    "quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger()": 20,
    "quantity('50k').asInteger()": 50000,
    "quantity('9999999999999999999999999999999999999G').isInteger()": False,
    "quantity('50').isInteger()": True,
    "quantity('50000000G').isInteger()": True,
    "quantity('1.5').isInteger()": False,
    "quantity('50.703k').asApproximateFloat()": 50703.0,
    "quantity('50k').sub(20000).asApproximateFloat() == 30000.0": True,
    "sign(quantity('-1m'))": -1,
    "sign(quantity('0'))": 0,
    "sign(quantity('5Gi'))": 1,
    "quantity(dyn('1Gi')).isGreaterThan(dyn(quantity('1M')))": True,
    "dyn(quantity('1')).add(dyn(1)).asInteger()": 2,
    "[quantity('1k'), quantity('2')].exists(q, q == quantity('1000'))": True,
    "quantity('1') in [quantity('1000m')]": True,
    "type(quantity('1')) == type(quantity('2'))": True,
    "type(quantity('1')) == string": False,
}


@pytest.mark.parametrize(("text", "wanted"), VALUES.items())
def test_values(evaluate: Evaluate, text: str, wanted: object) -> None:
    """Quantities compare and add up as upstream's."""
    assert evaluate(text, QUANTITY) == wanted


ERRORS = {
    "quantity('10Mo')": FORMAT_PROBLEM,
    "quantity('10Mm')": SUFFIX_PROBLEM,
    "quantity('')": FORMAT_PROBLEM,
    "quantity('9999999999999999999999999999999999999G').asInteger()": "cannot convert value to integer",
    "quantity('1m').asInteger()": "cannot convert value to integer",
    "dyn('1').isInteger()": "no such overload",
    "quantity(dyn(1))": "no such overload",
    "dyn(quantity('1')).add(dyn('1'))": "no such overload",
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_errors(evaluate: Evaluate, text: str, message: str) -> None:
    """A text that is not a quantity, or not an integer, is an error in upstream's words."""
    with pytest.raises(EvaluationError) as raised:
        evaluate(text, QUANTITY)
    assert str(raised.value) == message


def test_types(evaluate: Evaluate) -> None:
    """Other types are refused before evaluation, with the name that upstream gives the type."""
    with pytest.raises(CompileError, match="found no matching overload for 'isQuantity' applied to"):
        evaluate("isQuantity([1, 2, 3])", QUANTITY)
    with pytest.raises(CompileError, match=r"applied to '\(kubernetes\.Quantity\)'"):
        evaluate("quantity(quantity('1'))", QUANTITY)


def test_hostile_text(evaluate: Evaluate) -> None:
    """Neither digits nor exponents make large numbers."""
    for text in ("9" * 1_000_000, "1e999999999999999999", "-1e999999999"):
        assert evaluate("quantity(x).add(quantity(x)).sub(quantity(x)) == quantity(x)", QUANTITY, x=text) is True
