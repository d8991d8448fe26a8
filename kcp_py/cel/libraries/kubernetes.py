"""The libraries of Kubernetes' environments (apiserver `pkg/cel/environment/base.go`, all versions up to 1.37)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.libraries.cidr import CIDR
from kcp_py.cel.libraries.comprehensions import COMPREHENSIONS
from kcp_py.cel.libraries.format import FORMAT
from kcp_py.cel.libraries.ip import IP
from kcp_py.cel.libraries.kubernetes_lists import KUBERNETES_LISTS
from kcp_py.cel.libraries.lists import LISTS
from kcp_py.cel.libraries.optionals import OPTIONALS
from kcp_py.cel.libraries.quantity import QUANTITY
from kcp_py.cel.libraries.regex import REGEX
from kcp_py.cel.libraries.semver import SEMVER
from kcp_py.cel.libraries.sets import SETS
from kcp_py.cel.libraries.standard import STANDARD
from kcp_py.cel.libraries.strings import STRINGS
from kcp_py.cel.libraries.urls import URLS

if TYPE_CHECKING:
    from kcp_py.cel.declarations import Library

__all__ = ["KUBERNETES"]

KUBERNETES: Final[tuple[Library, ...]] = (
    STANDARD,
    OPTIONALS,
    COMPREHENSIONS,
    STRINGS,
    SETS,
    LISTS,
    KUBERNETES_LISTS,
    REGEX,
    URLS,
    QUANTITY,
    IP,
    CIDR,
    FORMAT,
    SEMVER,
)
"""What rules of CustomResourceDefinitions may use."""
