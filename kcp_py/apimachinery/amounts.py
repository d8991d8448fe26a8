"""Amounts of several resources, such as what a container requests (k8s.io/api `core/v1.ResourceList`)."""

from __future__ import annotations

from collections.abc import Mapping

from kcp_py.apimachinery.quantity import Quantity

Amounts = Mapping[str, Quantity]
"""Name of a resource, such as `cpu` -> how much of it."""


def add(total: dict[str, Quantity], more: Amounts) -> None:
    """Add amounts to `total`, which is changed."""
    for name, amount in more.items():
        total[name] = total[name].plus(amount) if name in total else amount


def raise_to(total: dict[str, Quantity], least: Amounts) -> None:
    """Raise each amount in `total`, which is changed, to that in `least`."""
    for name, amount in least.items():
        if name not in total or amount.nano > total[name].nano:
            total[name] = amount
