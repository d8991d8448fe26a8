"""Quantities such as `1.5Gi` (apiserver `pkg/cel/library/quantity.go`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from kcp_py.apimachinery import quantity as machinery
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import BOOL, DOUBLE, INT, STRING, Type, opaque

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["QUANTITY", "Quantity"]

_TYPE: Final = opaque("kubernetes.Quantity")


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A quantity; equal to each that stands for the same amount, however it was written."""

    cel_type: ClassVar[Type] = _TYPE

    amount: machinery.Quantity

    def __eq__(self, other: object) -> bool:
        """By the amount."""
        return isinstance(other, Quantity) and self.amount.nano == other.amount.nano

    def __hash__(self) -> int:
        """By the amount."""
        return hash(self.amount.nano)


def _quantity(text: str) -> Quantity:
    """Read one."""
    try:
        return Quantity(machinery.parse_quantity_text(text))
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def _is_quantity(text: str) -> bool:
    """Whether it can be read."""
    try:
        machinery.parse_quantity_text(text)
    except ValueError:
        return False
    return True


def _compare(one: Quantity, other: Quantity) -> int:
    """-1, 0 or 1."""
    return (one.amount.nano > other.amount.nano) - (one.amount.nano < other.amount.nano)


def _sign(value: Quantity) -> int:
    """-1, 0 or 1."""
    return (value.amount.nano > 0) - (value.amount.nano < 0)


def _as_integer(value: Quantity) -> int:
    """The number, where it is a whole one of 64 bits."""
    number = value.amount.int64
    if number is None:
        msg = "cannot convert value to integer"
        raise EvaluationError(msg)
    return number


def _add(one: Quantity, other: Quantity) -> Quantity:
    """The sum."""
    return Quantity(one.amount.plus(other.amount))


def _subtract(one: Quantity, other: Quantity) -> Quantity:
    """The difference."""
    return Quantity(one.amount.minus(other.amount))


def _of_int(number: int) -> Quantity:
    """A plain number as a quantity."""
    return Quantity(machinery.Quantity(number * 10**9, "DecimalExponent", 0))


def _member(name: str, id_: str, result: Type, run: Callable[..., object], *others: Type) -> Function:
    """A function on a quantity."""
    return Function(name, (Overload(id_, (_TYPE, *others), result, member=True, implementation=run),))


def _arithmetic(name: str, run: Callable[[Quantity, Quantity], Quantity]) -> Function:
    """A function on a quantity and another, or a number."""
    return Function(
        name,
        (
            Overload(f"quantity_{name}", (_TYPE, _TYPE), _TYPE, member=True, implementation=run),
            Overload(
                f"quantity_{name}_int",
                (_TYPE, INT),
                _TYPE,
                member=True,
                implementation=lambda one, number: run(one, _of_int(number)),
            ),
        ),
    )


QUANTITY: Final = Library(
    "kubernetes.quantity",
    functions=(
        Function("quantity", (Overload("string_to_quantity", (STRING,), _TYPE, implementation=_quantity),)),
        Function("isQuantity", (Overload("is_quantity_string", (STRING,), BOOL, implementation=_is_quantity),)),
        # Upstream documents `q.sign()`, but declares `sign(q)`.
        Function("sign", (Overload("quantity_sign", (_TYPE,), INT, implementation=_sign),)),
        _member("isGreaterThan", "quantity_is_greater_than", BOOL, lambda one, other: _compare(one, other) > 0, _TYPE),
        _member("isLessThan", "quantity_is_less_than", BOOL, lambda one, other: _compare(one, other) < 0, _TYPE),
        _member("compareTo", "quantity_compare_to", INT, _compare, _TYPE),
        _member("asApproximateFloat", "quantity_get_float", DOUBLE, lambda value: value.amount.approximate),
        _member("asInteger", "quantity_get_int", INT, _as_integer),
        _member("isInteger", "quantity_is_integer", BOOL, lambda value: value.amount.int64 is not None),
        _arithmetic("add", _add),
        _arithmetic("sub", _subtract),
    ),
    matches={"kubernetes.Quantity": Quantity},
)
