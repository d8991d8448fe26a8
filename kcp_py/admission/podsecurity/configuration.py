"""`PodSecurityConfiguration`: the policy of namespaces without labels, and the exemptions. The operator has it in a file.

Source: k8s.io/pod-security-admission `admission/api/v1/types.go`, `admission/api/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.admission.configuration import FLAG, Document, read_fields
from kcp_py.admission.podsecurity.levels import LEVEL_PROBLEM, MODES, VERSION_PROBLEM, Policy, Standard, parse_level, parse_version
from kcp_py.apimachinery import fielderrors
from kcp_py.apimachinery.meta.names import dns_label_problems, dns_subdomain_problems
from kcp_py.options import OptionsError

_GROUP: Final = "pod-security.admission.config.k8s.io"
_KIND: Final = "PodSecurityConfiguration"
_EXEMPTIONS: Final = ("usernames", "namespaces", "runtimeClasses")
_SHAPE: Final[Any] = {
    "defaults": {f"{mode}{suffix}": str for mode in MODES for suffix in ("", "-version")},
    "exemptions": {name: [str] for name in _EXEMPTIONS},
}


class PodSecurityConfiguration(NamedTuple):
    """The settings of the plugin."""

    defaults: Policy = Policy()
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def parse_configuration(document: Document | None) -> PodSecurityConfiguration:
    """The settings of a document; without one everything is privileged and nothing exempt.

    Raises:
        OptionsError: it is invalid.
    """
    if document is None:
        return PodSecurityConfiguration()
    versions = [f"{_GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1")]
    fields = read_fields(document, versions, _KIND, _SHAPE, strict=True)
    problems: list[str] = []
    defaults = _defaults(fields.get("defaults") or {}, problems)
    if problems:
        raise _refused(document, problems)
    exemptions = fields.get("exemptions") or {}
    users, namespaces, classes = (exemptions.get(name) or () for name in _EXEMPTIONS)
    found = [
        *_problems("namespaces", namespaces, dns_label_problems),
        *_problems("runtimeClasses", classes, dns_subdomain_problems),
        *_problems("usernames", users, lambda name: () if name else ("username must not be empty",)),
    ]
    if found:
        raise _refused(document, [fielderrors.aggregate(found)])
    return PodSecurityConfiguration(defaults, frozenset(users), frozenset(namespaces), frozenset(classes))


def _defaults(given: Mapping[str, Any], problems: list[str]) -> Policy:
    chosen = []
    for mode in MODES:
        level, version = parse_level(given.get(mode) or "privileged"), parse_version(given.get(f"{mode}-version") or "latest")
        if level is None:
            problems.append(f"{mode}: {LEVEL_PROBLEM}")
        if version is None:
            problems.append(f"{mode}-version: {VERSION_PROBLEM}")
        chosen.append(Standard(level or "restricted", version or 0))
    return Policy(*chosen)


def _problems(name: str, values: Sequence[Any], check: Callable[[str], Sequence[str]]) -> Sequence[fielderrors.FieldError]:
    found: list[fielderrors.FieldError] = []
    seen: set[str] = set()
    for index, value in enumerate(values):
        path, text = f"exemptions.{name}[{index}]", value or ""
        if details := check(text):
            found.append(fielderrors.invalid(path, text, ", ".join(details)))
        elif text in seen:
            found.append(fielderrors.duplicate(path, text))
        seen.add(text)
    return found


def _refused(document: Document, problems: Sequence[str]) -> OptionsError:
    text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return OptionsError(f"{FLAG}: {document.origin}: {text}")
