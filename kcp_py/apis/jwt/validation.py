"""Validation of JWT authenticators, with upstream's texts.

Source: k8s.io/apiserver `pkg/apis/apiserver/validation/validation.go`. The functions take decoded JSON whose types have been checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cryptography import x509

from kcp_py.apimachinery.fielderrors import FieldError, Printed, duplicate, invalid, required, too_many
from kcp_py.apimachinery.meta.names import dns_subdomain_problems
from kcp_py.apis.jwt.authenticators import ClaimValue, JWTAuthenticator, Rule, Source
from kcp_py.apis.jwt.expressions import CompiledExpression, compile_claims, compile_user
from kcp_py.golang.json import go_json
from kcp_py.golang.urls import UrlError, parse_url

WELL_KNOWN: Final = "/.well-known/openid-configuration"
MOST_AUTHENTICATORS: Final = 64

_PATH_FORMAT: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH: Final = re.compile(_PATH_FORMAT, re.ASCII)
_BOTH: Final = "claim and expression can't both be set"
_MATCH_ANY: Final = "MatchAny"
_EMAIL: Final = (
    "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or "
    "claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"
)

Document = Mapping[str, Any]
Problems = list[FieldError]


def validate_configuration(document: Document, disallowed: Sequence[str] = ()) -> tuple[Sequence[JWTAuthenticator], Problems]:
    """Validate an `AuthenticationConfiguration`.

    Args:
        document: the configuration.
        disallowed: issuers that others verify, such as the server's own.

    Returns:
        The authenticators, which are complete only if there are no problems, and the problems.
    """
    found, problems = validate_authenticators(document.get("jwt") or (), "jwt", disallowed)
    anonymous = document.get("anonymous")
    if anonymous is not None and anonymous.get("conditions") and not anonymous.get("enabled"):
        detail = "enabled should be set to true when conditions are defined"
        shown = Printed(go_json([{"Path": condition.get("path") or ""} for condition in anonymous["conditions"]]))
        problems.append(invalid("anonymous.conditions", shown, detail))
    return found, problems


def validate_authenticators(
    documents: Sequence[Document], path: str, disallowed: Sequence[str] = (), *, maximum: int = MOST_AUTHENTICATORS
) -> tuple[Sequence[JWTAuthenticator], Problems]:
    """Validate the list of authenticators of a configuration or an object. `path` is the field of the list."""
    if len(documents) > maximum:
        return (), [too_many(path, len(documents), maximum)]
    found: list[JWTAuthenticator] = []
    problems: Problems = []
    seen: dict[str, set[str]] = {"url": set(), "discoveryURL": set()}
    for index, document in enumerate(documents):
        here = f"{path}[{index}]"
        one = _Validation(document, here, disallowed)
        found += one.authenticator()
        problems += one.problems
        issuer = document.get("issuer") or {}
        for member, known in seen.items():
            value = issuer.get(member) or ""
            if value in known:
                problems.append(duplicate(f"{here}.issuer.{member}", value))
            if value or member == "url":
                known.add(value)
    return found, problems


class _Validation:
    """The validation of one authenticator."""

    def __init__(self, document: Document, path: str, disallowed: Sequence[str]) -> None:
        self._document = document
        self._path = path
        self._disallowed = sorted(set(disallowed))
        self._email = False
        self._email_verified = False
        self.problems: Problems = []

    def authenticator(self) -> list[JWTAuthenticator]:
        """The authenticator, or nothing if it has problems."""
        document = self._document
        issuer = document.get("issuer") or {}
        self._check_issuer(issuer, f"{self._path}.issuer")
        required_claims, claim_rules = self._claim_rules(document.get("claimValidationRules") or (), f"{self._path}.claimValidationRules")
        mappings = document.get("claimMappings") or {}
        username, groups, uid, extra = self._mappings(mappings, f"{self._path}.claimMappings")
        user_rules = self._user_rules(document.get("userValidationRules") or (), f"{self._path}.userValidationRules")
        if self.problems or username is None:
            return []
        url = issuer["url"]
        return [
            JWTAuthenticator(
                issuer=url,
                discovery_url=issuer.get("discoveryURL") or url.removesuffix("/") + WELL_KNOWN,
                authorities=(issuer.get("certificateAuthority") or "").encode(),
                audiences=frozenset(issuer["audiences"]),
                username=username,
                groups=groups,
                uid=uid,
                extra=extra,
                required_claims=required_claims,
                claim_rules=claim_rules,
                user_rules=user_rules,
            )
        ]

    def _add(self, problem: FieldError) -> None:
        self.problems.append(problem)

    def _check_issuer(self, issuer: Document, path: str) -> None:
        url, discovery = issuer.get("url") or "", issuer.get("discoveryURL") or ""
        if not url:
            self._add(required(f"{path}.url"))
        else:
            self._check_url(url, f"{path}.url", self._disallowed)
        if discovery:
            if url and url.rstrip("/") == discovery.rstrip("/"):
                self._add(invalid(f"{path}.discoveryURL", discovery, "discoveryURL must be different from URL"))
            self._check_url(discovery, f"{path}.discoveryURL", ())
        self._check_audiences(issuer, path)
        authority = issuer.get("certificateAuthority") or ""
        if authority and not _has_certificates(authority):
            detail = "data does not contain any valid RSA or ECDSA certificates"
            self._add(invalid(f"{path}.certificateAuthority", "<omitted>", detail))
        egress = issuer.get("egressSelectorType") or ""
        if egress and egress not in {"controlplane", "cluster"}:
            detail = "egress selector must be either controlplane or cluster"
            self._add(invalid(f"{path}.egressSelectorType", egress, detail))

    def _check_url(self, text: str, path: str, disallowed: Sequence[str]) -> None:
        if text in disallowed:
            detail = f"URL must not overlap with disallowed issuers: [{' '.join(disallowed)}]"
            self._add(invalid(path, text, detail))
        try:
            url = parse_url(text)
        except UrlError as error:
            self._add(invalid(path, text, str(error)))
            return
        if url.scheme != "https":
            self._add(invalid(path, text, "URL scheme must be https"))
        if url.userinfo is not None:
            self._add(invalid(path, text, "URL must not contain a username or password"))
        if url.query:
            self._add(invalid(path, text, "URL must not contain a query"))
        if url.fragment:
            self._add(invalid(path, text, "URL must not contain a fragment"))

    def _check_audiences(self, issuer: Document, path: str) -> None:
        audiences, policy = issuer.get("audiences") or (), issuer.get("audienceMatchPolicy") or ""
        if not audiences:
            self._add(required(f"{path}.audiences", f"at least one {path}.audiences is required"))
            return
        seen: set[str] = set()
        for index, audience in enumerate(audiences):
            here = f"{path}.audiences[{index}]"
            if not audience:
                self._add(required(here))
            if audience in seen:
                self._add(duplicate(here, audience))
            seen.add(audience)
        if len(audiences) > 1 and policy != _MATCH_ANY:
            detail = "audienceMatchPolicy must be MatchAny for multiple audiences"
            self._add(invalid(f"{path}.audienceMatchPolicy", policy, detail))
        if len(audiences) == 1 and policy not in {"", _MATCH_ANY}:
            detail = "audienceMatchPolicy must be empty or MatchAny for single audience"
            self._add(invalid(f"{path}.audienceMatchPolicy", policy, detail))

    def _claims(self, text: str, path: str, *, boolean: bool = False) -> CompiledExpression | None:
        """An expression over the claims; None, with a problem, for one that does not compile."""
        compiled = compile_claims(text, path, boolean=boolean)
        if isinstance(compiled, FieldError):
            self._add(compiled)
            return None
        return compiled

    def _claim_rules(self, rules: Sequence[Document], path: str) -> tuple[tuple[tuple[str, str], ...], tuple[Rule, ...]]:
        claims: dict[str, str] = {}
        expressions: set[str] = set()
        compiled: list[Rule] = []
        for index, rule in enumerate(rules):
            here = f"{path}[{index}]"
            claim, text, message = rule.get("claim") or "", rule.get("expression") or "", rule.get("message") or ""
            if claim and text:
                self._add(invalid(here, claim, _BOTH))
            elif not claim and not text:
                self._add(required(here, "claim or expression is required"))
            elif claim:
                if message:
                    self._add(invalid(f"{here}.message", message, "may not be specified when claim is set"))
                if claim in claims:
                    self._add(duplicate(f"{here}.claim", claim))
                claims[claim] = rule.get("requiredValue") or ""
            else:
                if value := rule.get("requiredValue"):
                    self._add(invalid(f"{here}.requiredValue", value, "may not be specified when expression is set"))
                if text in expressions:
                    self._add(duplicate(f"{here}.expression", text))
                    continue
                expressions.add(text)
                if (expression := self._claims(text, f"{here}.expression", boolean=True)) is not None:
                    self._email_verified |= "email_verified" in expression.selected
                    compiled.append(Rule(expression, message))
        return tuple(claims.items()), tuple(compiled)

    def _mappings(
        self, mappings: Document, path: str
    ) -> tuple[Source | None, Source | None, Source | None, tuple[tuple[str, CompiledExpression], ...]]:
        username = self._prefixed(mappings.get("username") or {}, f"{path}.username", needed=True)
        if isinstance(username, CompiledExpression):
            self._email = "email" in username.selected
            self._email_verified |= "email_verified" in username.selected
        groups = self._prefixed(mappings.get("groups") or {}, f"{path}.groups", needed=False)
        uid = self._uid(mappings.get("uid") or {}, f"{path}.uid")
        extra = self._extra(mappings.get("extra") or (), f"{path}.extra")
        if self._email and not self._email_verified:
            text = mappings["username"]["expression"]
            self._add(invalid(f"{path}.username.expression", text, _EMAIL))
        return username, groups, uid, extra

    def _prefixed(self, mapping: Document, path: str, *, needed: bool) -> Source | None:
        claim, text, prefix = mapping.get("claim") or "", mapping.get("expression") or "", mapping.get("prefix")
        if claim and text:
            self._add(invalid(path, "", _BOTH))
        elif text:
            if prefix is not None:
                self._add(invalid(f"{path}.prefix", prefix, "may not be specified when expression is set"))
            return self._claims(text, f"{path}.expression")
        elif claim:
            if prefix is None:
                detail = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
                self._add(required(f"{path}.prefix", detail))
            return ClaimValue(claim, prefix or "")
        elif needed:
            self._add(required(path, "claim or expression is required"))
        return None

    def _uid(self, mapping: Document, path: str) -> Source | None:
        claim, text = mapping.get("claim") or "", mapping.get("expression") or ""
        if claim and text:
            self._add(invalid(path, "", _BOTH))
            return None
        if text:
            return self._claims(text, f"{path}.expression")
        return ClaimValue(claim) if claim else None

    def _extra(self, mappings: Sequence[Document], path: str) -> tuple[tuple[str, CompiledExpression], ...]:
        seen: set[str] = set()
        compiled: list[tuple[str, CompiledExpression]] = []
        for index, mapping in enumerate(mappings):
            here = f"{path}[{index}]"
            key, text = mapping.get("key") or "", mapping.get("valueExpression") or ""
            self.problems += _extra_key_problems(key, f"{here}.key")
            if key in seen:
                self._add(duplicate(f"{here}.key", key))
                continue
            seen.add(key)
            if not text:
                self._add(required(f"{here}.valueExpression"))
            elif (expression := self._claims(text, f"{here}.valueExpression")) is not None:
                self._email_verified |= "email_verified" in expression.selected
                compiled.append((key, expression))
        return tuple(compiled)

    def _user_rules(self, rules: Sequence[Document], path: str) -> tuple[Rule, ...]:
        seen: set[str] = set()
        compiled: list[Rule] = []
        for index, rule in enumerate(rules):
            here = f"{path}[{index}].expression"
            text = rule.get("expression") or ""
            if not text:
                self._add(required(here))
            elif text in seen:
                self._add(duplicate(here, text))
            else:
                seen.add(text)
                expression = compile_user(text, here)
                if isinstance(expression, FieldError):
                    self._add(expression)
                else:
                    compiled.append(Rule(expression, rule.get("message") or ""))
        return tuple(compiled)


def in_domains(key: str, *domains: str) -> bool:
    """Whether a domain-prefixed key belongs to one of the domains or to a subdomain."""
    prefix, slash, _ = key.partition("/")
    return bool(slash) and any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def _extra_key_problems(key: str, path: str) -> Problems:
    problems = _domain_prefixed_problems(key, path)
    if key != key.lower():
        problems.append(invalid(path, key, "must be lowercase"))
    if in_domains(key, "k8s.io", "kubernetes.io"):
        problems.append(invalid(path, key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"))
    return problems


def _domain_prefixed_problems(text: str, path: str) -> Problems:
    """See `IsDomainPrefixedPath` of apimachinery `util/validation`."""
    if not text:
        return [required(path)]
    host, _, rest = text.partition("/")
    if not host or not rest:
        return [invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    problems = [invalid(path, host, problem) for problem in dns_subdomain_problems(host)]
    if not _PATH.fullmatch(rest):
        problems.append(invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH_FORMAT}')"))
    return problems


def _has_certificates(text: str) -> bool:
    try:
        return bool(x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        return False
