"""Policies and bindings for tests."""

from __future__ import annotations

from typing import Any

from tests.server.handlers.conftest import Api

CLUSTER = "/clusters/a"
GROUP = "apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = f"{CLUSTER}/api/v1/namespaces/default/configmaps"


def rule(*resources: str, operations: tuple[str, ...] = ("*",), group: str = "", version: str = "v1", **more: Any) -> dict[str, Any]:
    """A rule of `matchConstraints`."""
    return {"apiGroups": [group], "apiVersions": [version], "operations": [*operations], "resources": [*resources], **more}


def policy(name: str = "p", *expressions: str, rules: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """A ValidatingAdmissionPolicy about config maps, or about what `rules` select."""
    constraints = {"resourceRules": [rule("configmaps")] if rules is None else rules}
    validations = [{"expression": text} for text in expressions]
    return {"metadata": {"name": name}, "spec": {"matchConstraints": constraints, "validations": validations, **spec}}


def binding(name: str = "b", of: str = "p", *actions: str, **spec: Any) -> dict[str, Any]:
    """A ValidatingAdmissionPolicyBinding, which denies unless told otherwise."""
    return {"metadata": {"name": name}, "spec": {"policyName": of, "validationActions": [*(actions or ("Deny",))], **spec}}


def config_map(name: str = "x", **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name}, "data": data}


async def configure(api: Api, *objects: dict[str, Any], cluster: str = CLUSTER) -> None:
    """Create policies and bindings."""
    for obj in objects:
        kind = "validatingadmissionpolicybindings" if "policyName" in obj["spec"] else "validatingadmissionpolicies"
        await api.ok("POST", f"{cluster}/{GROUP}/{kind}", obj)


async def refused(api: Api, obj: dict[str, Any], code: int = 422, path: str = CONFIG_MAPS, **more: Any) -> str:
    """The message of a create that is denied, from the name of the policy on."""
    status = await api.fails(code, "POST", path, obj, **more)
    message: str = status["message"]
    return message.partition("ValidatingAdmissionPolicy ")[2]
