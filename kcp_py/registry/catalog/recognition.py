"""`KnownDefinitions`: recognizes the stored bytes of CRDs that serve the same as one that was compiled before.

A million clusters may have the same CRD. Each is stored with a uid and times of its own, and parsing it to find that it serves the
same takes longer than all else that a list over all clusters does for an object. What serving depends on are `spec`, `status` and whether
there is a `metadata.deletionTimestamp`. A stored CRD is recognized if it is, byte for byte ::

    {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{…},"spec":SPEC,"status":STATUS}

with the known SPEC, and the known STATUS but for the times of its conditions, and if neither `"deletionTimestamp":` nor `"status":` occurs
before SPEC. All others are parsed. Stored objects are the output of one encoder, without a repeated member.

Texts of tenants cannot make a CRD pass for another one. SPEC and STATUS are complete values, and only the brace of the document follows.
So exactly one value is open where SPEC begins: it is a member of the document itself, and not of something in `metadata`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from weakref import ref

import orjson

from kcp_py.registry.catalog.compilation import CompiledCRD

_HEAD: Final = b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{'
_SPEC: Final = b'},"spec":{'
_UNUSUAL: Final = (b'"deletionTimestamp":', b'"status":')
_TIME: Final = re.compile(rb'(?<="lastTransitionTime":")[^"\\]*+(?=")')
_ANY_TIME: Final = rb'[^"\\]*+'
_MOST_OF_NAME: Final = 8
_MOST_BYTES: Final = 4 << 20


class _Known(NamedTuple):
    spec: bytes
    """From the end of the metadata to the beginning of the value of the status."""
    status: re.Pattern[bytes]
    """The value of the status, and the end of the document."""
    compiled: ref[CompiledCRD]


class KnownDefinitions:
    """CRDs by name. Bounded by bytes; compiled forms are not kept alive."""

    def __init__(self) -> None:
        self._known: dict[str, list[_Known]] = {}
        self._bytes = 0

    def find(self, name: str, value: bytes) -> CompiledCRD | None:
        """What `CompiledCRDs.load` finds, without parsing; None for a CRD that is not recognized.

        Args:
            name: of the CRD, by its key.
            value: as it is stored.
        """
        known = self._known.get(name)
        if known is None:
            return None
        at = value.find(_SPEC)
        if at < 0 or not value.startswith(_HEAD) or any(value.find(text, 0, at) >= 0 for text in _UNUSUAL):
            return None
        for one in known:
            if value.startswith(one.spec, at) and one.status.fullmatch(value, at + len(one.spec)) is not None:
                return one.compiled()
        return None

    def learn(self, name: str, value: bytes, compiled: CompiledCRD) -> None:
        """Recognize CRDs of this form from now on.

        Args:
            name: of the CRD, by its key.
            value: as it is stored.
            compiled: what `CompiledCRDs.load` has found.
        """
        at = value.find(_SPEC)
        if at < 0 or len(value) - at > _MOST_BYTES >> 4:
            return
        crd = orjson.loads(value)
        spec = b'},"spec":%b,"status":' % orjson.dumps(crd["spec"])
        status = orjson.dumps(crd.get("status"))
        if value[at:] != b"%b%b}" % (spec, status) or not value.startswith(_HEAD) or any(value.find(text, 0, at) >= 0 for text in _UNUSUAL):
            return
        pattern = _ANY_TIME.join(re.escape(part) for part in _TIME.split(status)) + rb"\}"
        size = len(spec) + 4 * len(pattern)
        if self._bytes + size > _MOST_BYTES:
            self.clear()
        known = self._known.setdefault(name, [])
        known[:] = [one for one in known if one.compiled() is not None][1 - _MOST_OF_NAME :]
        self._bytes += size
        known.append(_Known(spec, re.compile(pattern, re.DOTALL), ref(compiled)))

    def clear(self) -> None:
        """Recognize nothing."""
        self._known.clear()
        self._bytes = 0
