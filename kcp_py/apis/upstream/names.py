"""The names that objects of upstream kinds can have, where these are not DNS subdomains.

Source: kubernetes `pkg/apis/*/validation` (`ValidateXName`), `pkg/apis/core/validation/names.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.apimachinery.meta import names
from kcp_py.apis.typed.cells import Object, at, text
from kcp_py.golang.addresses import AddressError, parse_address
from kcp_py.golang.quoting import go_quote

NameRule = Callable[[str], list[str]]
"""From a name to its problems."""

_BAD_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CRON_JOB_LIMIT: Final = 52
"""Jobs of a cron job have a name that is eleven characters longer, which is the value of a label."""


def _address_problems(name: str) -> list[str]:
    """An IP address in its canonical form (`ValidateIPAddressName`)."""
    try:
        address = parse_address(name)
    except AddressError:
        octets = name.split(".")
        if len(octets) == 4 and all(octet.isascii() and octet.isdigit() and int(octet) < 256 for octet in octets):
            return ["must not have leading 0s"]
        return [_BAD_ADDRESS]
    if address.zone:
        return [_BAD_ADDRESS]
    if address.is_mapped:
        return ["must not be an IPv4-mapped IPv6 address"]
    canonical = str(address)
    return [] if name == canonical else [f"must be in canonical form ({go_quote(canonical)})"]


def _declared_problems(name: str) -> list[str]:
    """A DNS subdomain, in the words of the rules that are generated from the types (`format=k8s-long-name`)."""
    return [problem.replace("253 characters", "253 bytes") for problem in names.dns_subdomain_problems(name)]


NAME_RULES: Final[Mapping[tuple[str, str], NameRule]] = {
    ("", "replicationcontrollers"): _declared_problems,
    ("", "services"): names.dns_label_problems,
    ("apiregistration.k8s.io", "apiservices"): names.path_segment_problems,
    ("apps", "statefulsets"): names.dns_label_problems,
    ("certificates.k8s.io", "clustertrustbundles"): names.path_segment_problems,
    ("coordination.k8s.io", "leasecandidates"): names.config_key_problems,
    ("networking.k8s.io", "ipaddresses"): _address_problems,
    ("policy", "poddisruptionbudgets"): names.path_segment_problems,
}
"""(group, plural) -> rule. Names of all other kinds are DNS subdomains."""


def _trust_bundle_name(obj: Object, name: str) -> list[str]:
    signer = text(at(obj, "spec", "signerName"))
    if not signer:
        without = 'ClusterTrustBundle without signer name must not have ":" in its name'
        return [without] if ":" in name else names.dns_subdomain_problems(name)
    prefix = signer.replace("/", ":") + ":"
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return names.dns_subdomain_problems(name.removeprefix(prefix))


def _cron_job_name(obj: Object, name: str) -> list[str]:
    del obj
    return [f"must be no more than {_CRON_JOB_LIMIT} characters"] if len(name) > _CRON_JOB_LIMIT else []


_NAMES_OF: Final[Mapping[tuple[str, str], Callable[[Object, str], list[str]]]] = {
    ("batch", "cronjobs"): _cron_job_name,
    ("certificates.k8s.io", "clustertrustbundles"): _trust_bundle_name,
}


def name_problems(kind: tuple[str, str], obj: Object) -> list[FieldError]:
    """The problems of the name of a new object that depend on the rest of the object.

    Args:
        kind: group and plural.
        obj: the object.
    """
    rule = _NAMES_OF.get(kind)
    name = text(at(obj, "metadata", "name"))
    return [invalid("metadata.name", name, problem) for problem in rule(obj, name)] if rule is not None else []
