"""Rules of APIServices.

Source: k8s.io/kube-aggregator `pkg/apis/apiregistration/validation`.
"""

from __future__ import annotations

import base64
from typing import Final

from kcp_py.apimachinery.fielderrors import invalid, not_supported, required
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import Object, Problems, name
from kcp_py.golang.quoting import go_quote

_STATUSES: Final = ("True", "False", "Unknown")


def changed_api_service_problems(obj: Object, old: Object) -> Problems:
    """Of a changed APIService: those of a new one."""
    del old
    return api_service_problems(obj)


def api_service_problems(obj: Object) -> Problems:
    """Of a new APIService. Its name follows from its group and version."""
    spec, title = obj["spec"], obj["metadata"].get("name", "")
    group, version, service = spec.get("group", ""), spec.get("version", ""), spec.get("service")
    if title != (wanted := f"{version}.{group}") and not names.path_segment_problems(title):
        yield invalid("metadata.name", title, f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}')
    if not group and version != "v1":
        yield required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    if group:
        yield from name(group, "spec.group")
    yield from name(version, "spec.version", names.dns_1035_label_problems)
    for member, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        if not 0 < (value := spec.get(member, 0)) <= most:
            yield invalid(f"spec.{member}", value, f"must be positive and less than {most}")
    bundle, insecure = spec.get("caBundle", ""), spec.get("insecureSkipTLSVerify", False)
    if service is None:
        if bundle:
            yield invalid("spec.caBundle", f"{len(base64.b64decode(bundle))} bytes", "local APIServices may not have a caBundle")
        if insecure:
            yield invalid("spec.insecureSkipTLSVerify", insecure, "local APIServices may not have insecureSkipTLSVerify")
        return
    for member in ("namespace", "name"):
        if not service.get(member):
            yield required(f"spec.service.{member}")
    if not 0 < (port := service.get("port", 0)) <= 65535:
        yield invalid("spec.service.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if insecure and bundle:
        yield invalid("spec.insecureSkipTLSVerify", insecure, "may not be true if caBundle is present")


def api_service_status_problems(obj: Object, old: Object) -> Problems:
    """Of a status."""
    del old
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        if (status := condition.get("status", "")) not in _STATUSES:
            yield not_supported(f"status.conditions[{index}].status", status, _STATUSES)
