"""`ConfiguredAuthorization`: the configured authorizers of a server, replaced when the file of the configuration changes.

Source: kubernetes `pkg/kubeapiserver/authorizer/reload.go`; metrics of k8s.io/apiserver `pkg/server/options/authorizationconfig/metrics`.
Upstream refuses a new file that adds or removes RBAC. Here it is taken.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from kcp_py.aio.settledfile import SettledFile
from kcp_py.authz.authorizer import AuthorizerUnion, ConfiguredAuthorizer
from kcp_py.authz.configuration.building import AuthorizerFactory, close, configuration_of
from kcp_py.authz.configuration.document import AuthorizerConfiguration, ConfigurationError, parse_configuration
from kcp_py.authz.configuration.validation import check_configuration
from kcp_py.options import Options

if TYPE_CHECKING:
    from prometheus_client.core import Metric

POLL_SECONDS: Final = 1.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authz")


class _Loaded(NamedTuple):
    content: bytes
    authorizers: tuple[AuthorizerConfiguration, ...]


class ConfiguredAuthorization:
    """Sets the configured authorizers of a union."""

    def __init__(self, options: Options, union: AuthorizerUnion, factory: AuthorizerFactory) -> None:
        """Read the configuration. It blocks for the time of the read.

        Raises:
            ConfigurationError: the configuration is invalid, or names a file that cannot be used.
        """
        self._file = options.authorization_config
        self._union = union
        self._factory = factory
        self._listeners: list[Callable[[], None]] = []
        self._reloads: Counter[str] = Counter()
        self._reloaded_at: dict[str, float] = {}
        self._seen: bytes | None = None
        self._failed_to_read = False
        if self._file is None:
            self._loaded = _Loaded(b"", configuration_of(options))
        else:
            try:
                self._loaded = _load(self._file.read_bytes())
            except ConfigurationError as error:
                raise ConfigurationError(f"{self._file}: {error}") from None
        union.configure(factory.build(self._loaded.authorizers))

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function after each replacement. It must not block and must not raise."""
        self._listeners.append(listener)

    async def follow(self) -> None:
        """Replace the authorizers whenever the file has changed and is not being written, for ever."""
        if self._file is None:
            return
        file = SettledFile(self._file)
        while True:
            if await asyncio.to_thread(file.look):
                await self.reload_if_changed()
            await asyncio.sleep(POLL_SECONDS)

    async def reload_if_changed(self) -> None:
        """Look at the file once. A file that cannot be used leaves the authorizers as they are; it is reported once."""
        assert self._file is not None
        try:
            found = await asyncio.to_thread(self._read, self._file)
        except (OSError, ConfigurationError) as error:
            self._count("failure")
            _log.error("authorization_configuration_not_reloaded", file=str(self._file), error=str(error))
            return
        if found is None:
            return
        loaded, authorizers = found
        replaced = self._union.configured
        self._union.configure(authorizers)
        self._loaded = loaded
        self._count("success")
        _log.info("authorization_configuration_reloaded", file=str(self._file))
        for listener in self._listeners:
            listener()
        await close(replaced)

    async def aclose(self) -> None:
        """Close the connections of webhooks."""
        await close(self._union.configured)

    def _read(self, file: Path) -> tuple[_Loaded, Sequence[ConfiguredAuthorizer]] | None:
        """The new configuration and its authorizers; None where nothing has changed since the last look.

        Raises:
            OSError: the file cannot be read, for the first time since it could.
            ConfigurationError: it is invalid.
        """
        try:
            content = file.read_bytes()
        except OSError:
            if self._failed_to_read:
                return None
            self._failed_to_read = True
            raise
        self._failed_to_read = False
        if content == (self._loaded.content if self._seen is None else self._seen):
            return None
        self._seen = content
        loaded = _load(content)
        if loaded.authorizers == self._loaded.authorizers:
            return None
        return loaded, self._factory.build(loaded.authorizers)

    def _count(self, status: str) -> None:
        self._reloads[status] += 1
        self._reloaded_at[status] = time.time()

    def collect(self) -> Iterator[Metric]:
        """The metric families. It may be called from any thread."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - slow to import

        decisions = CounterMetricFamily(
            "apiserver_authorization_decisions", "Final decisions of configured authorizers.", labels=("type", "name", "decision")
        )
        for labels, counts in self._union.decisions.copy().items():
            for decision, count in zip(("denied", "allowed"), counts, strict=True):
                if count:
                    decisions.add_metric((*labels, decision), count)
        yield decisions
        if self._file is None:
            return
        server = _hash(socket.gethostname().encode())
        prefix, labels = "apiserver_authorization_config_controller", ("status", "apiserver_id_hash")
        reloads = CounterMetricFamily(
            f"{prefix}_automatic_reloads", "Reloads of the authorization configuration by their outcome.", labels=labels
        )
        times = GaugeMetricFamily(
            f"{prefix}_automatic_reload_last_timestamp_seconds",
            "Time of the last reload of the authorization configuration by its outcome.",
            labels=labels,
        )
        for status, count in self._reloads.copy().items():
            reloads.add_metric((status, server), count)
            times.add_metric((status, server), self._reloaded_at[status])
        applied = GaugeMetricFamily(
            f"{prefix}_last_config_info", "Hash of the authorization configuration in use.", labels=("apiserver_id_hash", "hash")
        )
        applied.add_metric((server, _hash(self._loaded.content)), 1)
        yield from (reloads, times, applied)


def _load(content: bytes) -> _Loaded:
    authorizers = parse_configuration(content)
    check_configuration(authorizers)
    return _Loaded(content, authorizers)


def _hash(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}" if content else ""
