"""Why a token of a service account is not valid, in upstream's words (kubernetes `pkg/serviceaccount/{jwt,claims,legacy}.go`). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kcp_py.authn.serviceaccount.claims import Account
from kcp_py.authn.serviceaccount.facts import Fact
from kcp_py.golang.quoting import go_quote

EXPIRED: Final = "service account token has expired"
NOT_YET_VALID: Final = "service account token is not valid yet"
UNKNOWN_KEY: Final = "invalid signature, no keys found"
WRONG_SIGNATURE: Final = "go-jose/go-jose: error in cryptographic primitive"
INVALIDATED: Final = "service account token has been invalidated"
LEGACY_INVALIDATED: Final = "Token has been invalidated"
LEGACY_MISMATCH: Final = "Token does not match server's copy"


def other_audiences(given: Sequence[str], wanted: Sequence[str]) -> str:
    """The token is for none of the audiences in question."""
    return f"token audiences {_quoted(given)} is invalid for the target audiences {_quoted(wanted)}"


def account_problem(fact: Fact, account: Account, deleted_since: float) -> str:
    """Why an account is not that of a token; empty if it is."""
    if not fact.uid:
        return _absent(account)
    if fact.uid != account.uid:
        return f"service account UID ({fact.uid}) does not match claim ({account.uid})"
    if fact.deleted_at and fact.deleted_at < deleted_since:
        return f"service account {account.namespace}/{account.name} has been deleted"
    return ""


def bound_problem(kind: str, fact: Fact, uid: str, deleted_since: float) -> str:
    """Why an object is not that to which a token is bound; empty if it is. `kind` is `secret`, `pod` or `node`."""
    if not fact.uid:
        return INVALIDATED
    if fact.uid != uid:
        return f"{kind} UID ({fact.uid}) does not match service account {kind} ref claim ({uid})"
    return INVALIDATED if fact.deleted_at and fact.deleted_at < deleted_since else ""


def legacy_account_problem(fact: Fact, account: Account) -> str:
    """`account_problem` for the token of a secret, which ends with the first deletion."""
    if not fact.uid:
        return _absent(account)
    if fact.deleted_at:
        return f"ServiceAccount {account.namespace}/{account.name} has been deleted"
    return "" if fact.uid == account.uid else f"ServiceAccount UID ({fact.uid}) does not match claim ({account.uid})"


def marked_invalid(account: Account, secret: str) -> str:
    """The secret has the label of the cleaner of unused tokens."""
    namespace = account.namespace
    return (
        f"the token in secret {namespace}/{secret} for service account {namespace}/{account.name} has been marked invalid. "
        "Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the "
        "'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token"
    )


def _absent(account: Account) -> str:
    return f"serviceaccounts {go_quote(account.name)} not found"


def _quoted(texts: Sequence[str]) -> str:
    return f"[{' '.join(map(go_quote, texts))}]"
