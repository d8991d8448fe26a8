"""The issuers of the operator: of the options `--oidc-…`, or of the file of `--authentication-config`, which may change.

Source: kubernetes `pkg/kubeapiserver/options/authentication.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.aio.offload import offload
from kcp_py.apimachinery.fielderrors import FieldError, forbidden
from kcp_py.authn.anonymous import AnonymousAccess
from kcp_py.authn.oidc.errors import AuthenticationError
from kcp_py.authn.tokens import Audiences, AuthenticatedToken
from kcp_py.egress import Caller
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.options import Options

if TYPE_CHECKING:
    from kcp_py.authn.oidc.tokens import JWTTokens

PROVIDER_SECONDS: Final = 10.0
"""How long the fetch of a document of a provider may take."""
RELOADS: Final = "apiserver_authentication_config_controller_automatic_reloads"
"""The metric of upstream that counts reloads; the label `status` is `success` or `failure`."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authn")


class OperatorIssuers:
    """A `TokenAuthenticator` of the issuers that the operator trusts for every cluster.

    Attributes:
        anonymous: which requests without credentials are allowed. It does not change.
        reloads: the number of reloads of the file by their outcome.
    """

    def __init__(self, options: Options, caller: Caller, disallowed: Sequence[str] = (), *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Read the options, and the file if they name one.

        Args:
            options: the settings.
            caller: fetches the keys of the issuers.
            disallowed: issuers that others verify.
            clock: when tokens and keys end.

        Raises:
            OSError: a file cannot be read.
            AuthenticationError: the configuration is invalid.
        """
        self._options = options
        self._caller = caller
        self._disallowed = tuple(disallowed)
        self._clock = clock
        self._path = options.authentication_config
        self._data = b""
        self._error = ""
        self._anonymous: Any = None
        self._algorithms: Sequence[str] = ()
        self._listeners: list[Callable[[], None]] = []
        self.reloads: dict[tuple[str, ...], float] = {("success",): 0, ("failure",): 0}
        if self._path is not None:
            self._data = self._path.read_bytes()
            document = _decoded(self._path, self._data)
            self._anonymous = document.get("anonymous")
        else:
            document = _from_flags(options)
            self._algorithms = options.oidc_signing_algs
        self._tokens = self._built(document)
        self.anonymous = _anonymous_of(options, self._anonymous)

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        """See `TokenAuthenticator`."""
        return None if self._tokens is None else await self._tokens.authenticate_token(token, cluster, audiences)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function after each change of the issuers. It must not block and must not raise."""
        self._listeners.append(listener)

    def close(self) -> None:
        """End all fetches of keys."""
        if self._tokens is not None:
            self._tokens.close()

    async def reload_if_changed(self) -> None:
        """Read the file again if its content has changed. The old issuers stay if the new content is invalid."""
        if self._path is None:
            return
        try:
            data = await asyncio.to_thread(self._path.read_bytes)
        except OSError as error:
            self._refuse(f"{self._path}: {error.strerror or error}")
            return
        if data == self._data:
            return
        self._data = data
        try:
            tokens = await offload(self._reloaded, self._path, data)
        except AuthenticationError as error:
            self._refuse(str(error))
            return
        self.close()
        self._tokens = tokens
        self._error = ""
        self.reloads["success",] += 1
        _log.info("authentication_reloaded", file=str(self._path))
        for listener in self._listeners:
            listener()

    def _reloaded(self, path: Path, data: bytes) -> JWTTokens | None:
        document = _decoded(path, data)
        changed = document.get("anonymous") != self._anonymous
        return self._built(document, [forbidden("anonymous", "changed from initial configuration file")] if changed else [])

    def _refuse(self, error: str) -> None:
        self.reloads["failure",] += 1
        if error != self._error:
            self._error = error
            _log.warning("authentication_not_reloaded", file=str(self._path), error=error)

    def _built(self, document: Mapping[str, Any], problems: Sequence[FieldError] = ()) -> JWTTokens | None:
        if not (document.get("jwt") or document.get("anonymous") or problems):
            return None
        # Imported only if there are issuers, because expressions and signatures take tens of milliseconds to import.
        from kcp_py.authn.oidc.building import build_tokens  # noqa: PLC0415

        return build_tokens(
            document, self._caller, algorithms=self._algorithms, disallowed=self._disallowed, problems=problems, clock=self._clock
        )


def _decoded(path: Path, data: bytes) -> Mapping[str, Any]:
    from kcp_py.apis.jwt.configuration import ConfigurationError, decode_configuration  # noqa: PLC0415 - as above

    try:
        return decode_configuration(data)
    except ConfigurationError as error:
        raise AuthenticationError(f'failed to load authentication configuration from file "{path}": {error}') from None


def _anonymous_of(options: Options, anonymous: Any) -> AnonymousAccess:
    if anonymous is None:
        return AnonymousAccess(options.anonymous_auth is not False)
    if options.anonymous_auth is not None:
        detail = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file"
        raise AuthenticationError(str(forbidden("anonymous", detail)))
    paths = frozenset(condition.get("path") or "" for condition in anonymous.get("conditions") or ())
    return AnonymousAccess(anonymous.get("enabled") or False, paths)


def _from_flags(options: Options) -> Mapping[str, Any]:
    """The configuration that the options `--oidc-…` stand for."""
    if not options.oidc_issuer_url or not options.oidc_client_id:
        return {"jwt": []}
    prefix = options.oidc_username_prefix
    if prefix == "-":
        prefix = ""
    elif not prefix and options.oidc_username_claim != "email":
        prefix = f"{options.oidc_issuer_url}#"
    mappings: dict[str, Any] = {"username": {"claim": options.oidc_username_claim, "prefix": prefix}}
    if options.oidc_groups_claim:
        mappings["groups"] = {"claim": options.oidc_groups_claim, "prefix": options.oidc_groups_prefix}
    issuer: dict[str, Any] = {"url": options.oidc_issuer_url, "audiences": [options.oidc_client_id]}
    if options.oidc_ca_file is not None:
        issuer["certificateAuthority"] = options.oidc_ca_file.read_text()
    rules = [{"claim": claim, "requiredValue": value} for claim, _, value in (pair.partition("=") for pair in options.oidc_required_claim)]
    return {"jwt": [{"issuer": issuer, "claimMappings": mappings, "claimValidationRules": rules}]}
