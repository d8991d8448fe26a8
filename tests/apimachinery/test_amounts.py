"""Arithmetic with amounts of several resources."""

from __future__ import annotations

from kcp_py.apimachinery.amounts import add, raise_to
from kcp_py.apimachinery.quantity import Quantity, parse_quantity


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in texts.items()}


def test_amounts_are_added():
    """Each resource by itself; one that was missing is there afterwards, and the other amounts do not change."""
    total, more = amounts(cpu="1500m", memory="1Gi"), amounts(cpu="1", pods="2")
    add(total, more)
    assert {name: str(amount) for name, amount in total.items()} == {"cpu": "2500m", "memory": "1Gi", "pods": "2"}
    assert more == amounts(cpu="1", pods="2")


def test_amounts_are_raised():
    """To the larger one of each resource, in whatever unit it is written."""
    total = amounts(cpu="1500m", memory="1Gi")
    raise_to(total, amounts(cpu="1", memory="1025Mi", pods="2"))
    assert {name: str(amount) for name, amount in total.items()} == {"cpu": "1500m", "memory": "1025Mi", "pods": "2"}
