"""The FlowSchemas and PriorityLevelConfigurations of Kubernetes' own policy, read from `flowcontrol.json`.

Source: k8s.io/apiserver `pkg/apis/flowcontrol/bootstrap`. The file has them as kube-apiserver 1.37.2 serves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

_FILE: Final = Path(__file__).parent / "flowcontrol.json"

MANDATORY: Final = frozenset({"catch-all", "exempt"})
"""The names of those, of both kinds, whose specification is fixed."""


@cache
def flow_control() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Plural of the resource -> name -> specification. Shared: do not change them."""
    found: Mapping[str, Mapping[str, Mapping[str, Any]]] = orjson.loads(_FILE.read_bytes())
    return found
