"""`Keyring`: the keys of service account tokens that all servers of a store share, and their rotation.

The keys are one record of the store, which every server follows. A new key is published first and signs only when `SETTLING` has passed, so
that all servers, and all systems that have cached the key set, know it before they see a token of it. An old key stays until every token
that it has signed has expired: the record says until when these are valid, and says so before such a token is handed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
import structlog

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.aio.offload import offload
from kcp_py.authn.serviceaccount.newkeys import algorithm_of, generate_pem
from kcp_py.storage.contract import Compare, ConflictError, Event, Put, Storage

if TYPE_CHECKING:
    from kcp_py.authn.serviceaccount.keys import SigningKey, VerifyingKey

SETTLING: Final = 2 * 3600.0
"""Seconds between the publication of a key and its first signature: twice the time for which other systems may cache the key set."""
NEVER: Final = 253402300799.0
"""The end of tokens that do not expire, and of all others beyond the year 9999."""
_LEEWAY: Final = 3600.0
"""Seconds for which a key is kept beyond its last token, since the clocks of servers differ."""
_AHEAD: Final = 86400.0
"""The record covers tokens up to this much later than needed, so that it is written about once a day and not with every token."""
_CHECK_SECONDS: Final = 600.0
MOST_KEYS: Final = 32
"""Rotation pauses at so many keys: each is kept by a token that is still valid, such as one that never expires."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authn")


class KeyRecord(NamedTuple):
    """One key as it is stored."""

    private: str
    """PEM."""
    created: float
    """Unix seconds, like all times here."""
    signs_from: float
    signed_until: float = 0.0
    """No token of the key is valid after this time."""


class Settings(NamedTuple):
    """How keys are made."""

    algorithm: str = "ES256"
    max_age: float = 0.0
    """Seconds after which a key is replaced; 0 keeps it."""


class GivenKeys(NamedTuple):
    """Keys of the operator's files."""

    signing: SigningKey | None = None
    """Signs instead of the keys of the store."""
    verifying: Sequence[VerifyingKey] = ()


DEFAULTS: Final = Settings()
NO_FILES: Final = GivenKeys()


class _Loaded(NamedTuple):
    """A state of the record."""

    revision: int
    keys: tuple[KeyRecord, ...]


_NONE: Final = _Loaded(0, ())
"""Where the store has no record."""


class Keyring:
    """The keys that sign and verify."""

    def __init__(
        self, storage: Storage, key: str, clock: Clock = SYSTEM_CLOCK, *, settings: Settings = DEFAULTS, given: GivenKeys = NO_FILES
    ) -> None:
        """Prepare. `start` reads the keys.

        Args:
            storage: the store.
            key: of the record.
            clock: the age of keys, and when they are looked at.
            settings: how keys are made.
            given: the keys of the operator.
        """
        self._storage = storage
        self._key = key
        self._clock = clock
        self._settings = settings
        self._given = given
        self._loaded = _NONE
        self._missed = asyncio.Event()
        self._parsed: dict[str, SigningKey] = {}
        self._verifying: Mapping[str, VerifyingKey] | None = None
        self.generation: object = object()
        """Another one whenever the keys change. Outcomes of verifications hold for one generation."""

    async def start(self) -> None:
        """Read the keys; make the first one where the store has none and the operator gives none.

        Raises:
            StorageError: the store cannot be read or written.
        """
        await self.reload()
        while not self._loaded.keys and self._given.signing is None:
            now = self._clock.time()
            await self._store((KeyRecord(await self._new_key(), now, 0.0),))

    async def run(self) -> None:
        """Rotate when it is due, and read the keys again where changes may have been missed, until cancelled."""
        while True:
            self._missed.clear()
            await self.reload()
            await self.rotate_if_due()
            await self._clock.wait(self._missed, _CHECK_SECONDS)

    def changed(self, event: Event) -> None:
        """The record was changed, maybe by another server."""
        if event.mod_revision > self._loaded.revision:
            self._set(_read(event.value, event.mod_revision))

    def missed(self) -> None:
        """Changes of the record may have been missed: `run` reads it again."""
        self._missed.set()

    async def verifying(self) -> Mapping[str, VerifyingKey]:
        """All keys whose tokens are valid, by ID: those of the operator, then those of the store, the newest last."""
        while self._verifying is None:
            found = [self._given.signing.public] if self._given.signing is not None else []
            found += self._given.verifying
            records = self._loaded.keys
            found += [(await self._signing_key(record)).public for record in records]
            if records is self._loaded.keys:
                self._verifying = {key.id: key for key in found}
        return self._verifying

    async def sign(self, claims: Mapping[str, Any], expires: float = NEVER) -> str:
        """A token with the claims. Before it is returned, the record covers its expiry.

        Args:
            claims: the payload.
            expires: when the token expires, in unix seconds.

        Raises:
            StorageError: the store cannot be read or written.
        """
        if self._given.signing is not None:
            return self._given.signing.sign(claims)
        while True:
            keys = self._loaded.keys
            if not keys:
                # The record was deleted, to end all tokens.
                await self.start()
                continue
            record = keys[self._current(self._clock.time())]
            if record.signed_until >= expires:
                return (await self._signing_key(record)).sign(claims)
            covered = min(expires + _AHEAD, NEVER)
            await self._store(tuple(one._replace(signed_until=covered) if one is record else one for one in keys))

    async def rotate_if_due(self) -> bool:
        """Publish a new key if the newest one is too old, and remove keys whose tokens have all expired.

        Returns:
            Whether a key was published.

        Raises:
            StorageError: the store cannot be read or written.
        """
        if self._given.signing is not None or not self._loaded.keys:
            return False
        now = self._clock.time()
        keys = self._loaded.keys
        # A key that is replaced signs no more, and its tokens have expired.
        current = self._current(now - _LEEWAY)
        kept = tuple(one for at, one in enumerate(keys) if at >= current or one.signed_until + _LEEWAY > now)
        newest = keys[-1]
        changed = algorithm_of(newest.private) != self._settings.algorithm
        old = bool(self._settings.max_age) and now >= newest.created + self._settings.max_age
        due = (changed or old) and len(kept) < MOST_KEYS
        if due:
            kept = (*kept, KeyRecord(await self._new_key(), now, now + SETTLING))
        if len(kept) != len(keys) or due:
            stored = await self._store(kept)
            if due and stored:
                published = await self._signing_key(kept[-1])
                _log.info("service_account_key_published", kid=published.public.id, keys=len(kept))
            return due and stored
        return False

    async def reload(self) -> None:
        """Read the record. Called whenever it may have changed.

        Raises:
            StorageError: the store cannot be read.
        """
        item = await self._storage.get(self._key)
        if item is None:
            self._set(_NONE)
        elif item.mod_revision > self._loaded.revision:
            self._set(_read(item.value, item.mod_revision))

    def _current(self, now: float) -> int:
        """The index of the key that signs at a time: the last one whose time has come."""
        return max((at for at, one in enumerate(self._loaded.keys) if one.signs_from <= now), default=0)

    async def _store(self, keys: tuple[KeyRecord, ...]) -> bool:
        """Replace the record that was loaded. Another server may have been faster: then that one's is loaded."""
        value = orjson.dumps({"keys": [one._asdict() for one in keys]})
        try:
            revision = await self._storage.transact([Compare(self._key, mod_revision=self._loaded.revision)], [Put(self._key, value)])
        except ConflictError:
            await self.reload()
            return False
        if revision > self._loaded.revision:
            self._set(_Loaded(revision, keys))
        return True

    async def _new_key(self) -> str:
        return await offload(generate_pem, self._settings.algorithm)

    async def _signing_key(self, record: KeyRecord) -> SigningKey:
        key = self._parsed.get(record.private)
        if key is None:
            key = self._parsed[record.private] = await offload(_parse, record.private)
        return key

    def _set(self, loaded: _Loaded) -> None:
        before, self._loaded = self._loaded, loaded
        if [one.private for one in before.keys] != [one.private for one in loaded.keys]:
            self._verifying = None
            self.generation = object()
            current = {one.private for one in loaded.keys}
            self._parsed = {private: key for private, key in self._parsed.items() if private in current}


def _parse(private: str) -> SigningKey:
    from kcp_py.authn.serviceaccount.keys import parse_private  # noqa: PLC0415 - a server without tokens needs no joserfc

    return parse_private(private.encode())


def _read(value: bytes | None, revision: int) -> _Loaded:
    """A state of the record. A deletion is followed by a record with a revision of its own."""
    return _NONE if value is None else _Loaded(revision, tuple(KeyRecord(**one) for one in orjson.loads(value)["keys"]))
