"""The Table columns of CertificateSigningRequests (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.meta.table import AGE, NAME, human_duration
from kcp_py.apis.typed.cells import NONE, Object, at, column, field, integer, objects_at, text


def _requested_duration(obj: Object) -> str:
    seconds = at(obj, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(integer(seconds))


def _condition(obj: Object) -> str:
    conditions = {text(condition.get("type")) for condition in objects_at(obj, "status", "conditions")}
    states = ["Denied" if "Denied" in conditions else "Approved" if "Approved" in conditions else "Pending"]
    states += ["Failed"] if "Failed" in conditions else []
    states += ["Issued"] if at(obj, "status", "certificate") else []
    return ",".join(states)


SIGNING_REQUEST: Final = (
    NAME,
    AGE,
    column("SignerName", field("spec", "signerName", none=NONE)),
    column("Requestor", field("spec", "username")),
    column("RequestedDuration", _requested_duration),
    column("Condition", _condition),
)
