"""The roles and bindings of Kubernetes' own policy, read from `rbac.json`, which `hack/update_rbac_policy.py` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

_FILE: Final = Path(__file__).parent / "rbac.json"


@cache
def policy_objects() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Plural of the resource -> its objects, without what all of them have in common. Shared: do not change them."""
    found: Mapping[str, Sequence[Mapping[str, Any]]] = orjson.loads(_FILE.read_bytes())
    return found
