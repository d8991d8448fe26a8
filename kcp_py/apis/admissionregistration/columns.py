"""What `kubectl get` shows of the kinds of the group (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kcp_py.apimachinery.meta.table import AGE, NAME
from kcp_py.apis.typed.cells import UNSET, Object, at, column, count, count_at, field, object_at, selector_text, text


def _parameter_kind(obj: Object) -> str:
    kind = at(obj, "spec", "paramKind")
    return f"{text(kind.get('apiVersion'))}/{text(kind.get('kind'))}" if isinstance(kind, Mapping) else UNSET


def _parameter(obj: Object) -> str:
    reference = object_at(obj, "spec", "paramRef")
    name = text(reference.get("name"))
    if name:
        return f"{text(reference.get('namespace')) or '*'}/{name}"
    return selector_text(reference["selector"]) if "selector" in reference else UNSET


WEBHOOKS: Final = (NAME, column("Webhooks", count("webhooks"), "integer"), AGE)
BINDING: Final = (NAME, column("PolicyName", field("spec", "policyName")), column("ParamRef", _parameter), AGE)
VALIDATING_POLICY: Final = (
    NAME,
    column("Validations", count_at("spec", "validations"), "integer"),
    column("ParamKind", _parameter_kind),
    AGE,
)
MUTATING_POLICY: Final = (
    NAME,
    column("Mutations", count_at("spec", "mutations"), "integer"),
    column("ParamKind", _parameter_kind),
    AGE,
)
