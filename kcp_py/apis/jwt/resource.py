"""`ClusterAuthenticationConfiguration`: the issuers that one logical cluster trusts, as an object in that cluster.

The field `spec.jwt` has the form that it has in an `AuthenticationConfiguration` of Kubernetes and in a
`WorkspaceAuthenticationConfiguration` of kcp. Its validation is that of the file of `--authentication-config`, with further rules: see
`confinement_problems`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.registry.stored import StoredResource
from kcp_py.registry.strategy import Strategy

GROUP: Final = "authentication.kcp-py.io"
VERSION: Final = "v1alpha1"
RESOURCE: Final = "clusterauthenticationconfigurations"
KIND: Final = "ClusterAuthenticationConfiguration"
MOST_ISSUERS: Final = 16
"""Issuers that one cluster trusts, over all of its objects."""
RESERVED_DOMAINS: Final = ("kcp.io", "kcp-py.io", "k8s.io", "kubernetes.io")
"""Domains of extra fields that only the server sets."""
RESERVED_PREFIX: Final = "system:"
"""How names and groups begin that only the server gives."""


def _text(description: str, longest: int = 1024) -> dict[str, Any]:
    return {"type": "string", "description": description, "maxLength": longest}


def _object(description: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "description": description, "properties": properties}


def _list(description: str, items: Mapping[str, Any], longest: int = 32) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": items, "maxItems": longest, "x-kubernetes-list-type": "atomic"}


def _expression(description: str) -> dict[str, Any]:
    return _text(description, 4096)


def _prefixed(description: str) -> dict[str, Any]:
    return _object(
        description,
        claim=_text("Claim with the value."),
        prefix=_text("Prefix of the value, required with a claim; may be empty."),
        expression=_expression("CEL expression over claims that gives the value. Excludes claim and prefix."),
    )


_JWT: Final = _object(
    "An issuer, and how its tokens become users.",
    issuer=_object(
        "The provider.",
        url=_text("URL in the claim iss and in the discovery document. Its scheme is https."),
        discoveryURL=_text("Address of the discovery document, if it is not below url."),
        certificateAuthority=_text("PEM certificates that the provider is verified by. Default: those of the system.", 65536),
        audiences=_list("A token must have one of them.", _text("An audience.")),
        audienceMatchPolicy=_text("MatchAny; required for several audiences."),
    ),
    claimValidationRules=_list(
        "Rules that the claims must meet.",
        _object(
            "A claim with its value, or an expression.",
            claim=_text("Claim with a required value."),
            requiredValue=_text("The value."),
            expression=_expression("CEL expression over claims that must be true."),
            message=_text("Why the expression is required."),
        ),
    ),
    claimMappings=_object(
        "What the user is made of. Names and groups that begin with system: are refused.",
        username=_prefixed("The name; required."),
        groups=_prefixed("The groups: a text or a list of texts."),
        uid=_object(
            "The uid.", claim=_text("Claim with the uid."), expression=_expression("CEL expression over claims that gives the uid.")
        ),
        extra=_list(
            "Extra fields.",
            _object(
                "An extra field.",
                key=_text("Name of the field with a domain, such as example.org/tenant."),
                valueExpression=_expression("CEL expression over claims that gives a text or a list of texts."),
            ),
        ),
    ),
    userValidationRules=_list(
        "Rules that the user must meet.",
        _object(
            "An expression.",
            expression=_expression("CEL expression over user that must be true."),
            message=_text("Why the expression is required."),
        ),
    ),
)
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Issuers of JSON Web Tokens whose users this logical cluster trusts. They are not trusted in other clusters.",
    "required": ["spec"],
    "properties": {"spec": _object("The issuers.", jwt=_list("Issuers with their rules.", _JWT, MOST_ISSUERS))},
}


class ClusterAuthenticationStrategy(Strategy):
    """Validates issuers and compiles their expressions."""

    def is_heavy(self, obj: dict[str, Any]) -> bool:
        """Expressions take milliseconds to compile."""
        del obj
        return True

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """The problems of a configuration file, and those of issuers of one cluster."""
        # Imported at the first object: most servers have none.
        from kcp_py.apis.jwt.validation import validate_authenticators  # noqa: PLC0415

        documents = (obj.get("spec") or {}).get("jwt") or []
        _, problems = validate_authenticators(documents, "spec.jwt", maximum=MOST_ISSUERS)
        return [*problems, *confinement_problems(documents, "spec.jwt")]


def confinement_problems(documents: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """The problems of mappings that could only give users that are refused.

    Args:
        documents: the issuers; decoded JSON whose types have been checked.
        path: the field of the list.
    """
    problems: list[FieldError] = []
    for index, document in enumerate(documents):
        mappings = document.get("claimMappings") or {}
        here = f"{path}[{index}].claimMappings"
        for part in ("username", "groups"):
            prefix = (mappings.get(part) or {}).get("prefix") or ""
            if prefix.startswith(RESERVED_PREFIX):
                problems.append(invalid(f"{here}.{part}.prefix", prefix, f"the prefix {RESERVED_PREFIX} is reserved"))
        for number, extra in enumerate(mappings.get("extra") or ()):
            key = extra.get("key") or ""
            if is_reserved_key(key):
                detail = f"{', '.join(RESERVED_DOMAINS)} and their subdomains are reserved"
                problems.append(invalid(f"{here}.extra[{number}].key", key, detail))
    return problems


def is_reserved_key(key: str) -> bool:
    """Whether only the server sets an extra field."""
    domain = key.partition("/")[0].lower()
    return any(domain == reserved or domain.endswith(f".{reserved}") for reserved in RESERVED_DOMAINS)


def cluster_authentication() -> StoredResource:
    """The resource, for the catalog."""
    return StoredResource(
        group=GROUP,
        version=VERSION,
        resource=RESOURCE,
        kind=KIND,
        schema=SCHEMA,
        strategy=ClusterAuthenticationStrategy(),
        namespaced=False,
        columns=({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},),
    )
