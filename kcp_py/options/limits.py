"""`LimitOptions`: the settings of what requests, connections and watches may cost."""

from __future__ import annotations

from dataclasses import dataclass

from kcp_py.options.fields import HISTORY, LIMITS, setting
from kcp_py.options.kinds import DURATION, SIZE, above_zero, integer


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """The settings of what requests, connections and watches may cost."""

    max_request_body_bytes: int = setting(
        above_zero(SIZE), 3 * 1024 * 1024, LIMITS, "Largest request body; a larger one is answered with 413."
    )
    max_body_bytes_in_flight: int = setting(
        above_zero(SIZE),
        64 * 1024 * 1024,
        LIMITS,
        "Total size of the request bodies above 64Ki that are processed at a time; further ones wait unread for up to 30 s, "
        "then are answered with 429.",
    )
    max_cluster_body_bytes_in_flight: int = setting(
        above_zero(SIZE), 8 * 1024 * 1024, LIMITS, "As --max-body-bytes-in-flight, for the requests to one logical cluster."
    )
    max_request_header_bytes: int = setting(above_zero(SIZE), 128 * 1024, LIMITS, "Largest request line and headers; otherwise 431.")
    request_header_timeout: float = setting(above_zero(DURATION), 32.0, LIMITS, "How long a client may take to send the head of a request.")
    tls_handshake_timeout: float = setting(
        above_zero(DURATION), 10.0, LIMITS, "How long a client may take for the TLS handshake of a connection."
    )
    max_connections_per_address: int = setting(
        integer(-1, 10**6),
        -1,
        LIMITS,
        "Connections that one client address (of IPv6, one network of 64 bits) may have open; further ones are closed at once. -1: half of "
        "what the limit on open files allows. 0: no limit, for servers behind a reverse proxy. Loopback addresses are not limited.",
    )
    request_timeout: float = setting(
        above_zero(DURATION), 60.0, LIMITS, "How long a request may take, except watches; after this time it is answered with 504."
    )
    min_request_timeout: float = setting(
        DURATION,
        1800.0,
        LIMITS,
        "A watch without timeoutSeconds ends after a random time between this value and twice this value, which distributes the load.",
    )

    logical_cluster_total_object_limit: int = setting(
        integer(0, 10**15),
        0,
        LIMITS,
        "How many objects a logical cluster may have, without events; further ones are refused with 403. 0: no limit. "
        "Annotation: core.kcp.io/max-total-objects. Limits in options do not apply to root and to clusters of the system.",
    )
    logical_cluster_total_byte_limit: int = setting(
        SIZE, 0, LIMITS, "How large the objects of a logical cluster may be together. 0: no limit. Annotation: kcp-py.io/max-total-bytes."
    )
    logical_cluster_definition_limit: int = setting(
        integer(0, 10**9),
        0,
        LIMITS,
        "How many CustomResourceDefinitions a logical cluster may have. 0: no limit. "
        "Annotation: kcp-py.io/max-custom-resource-definitions.",
    )
    logical_cluster_watch_limit: int = setting(
        integer(0, 10**9),
        0,
        LIMITS,
        "How many watches of a logical cluster may run at a time on one server; further ones are answered with 429. 0: no limit. "
        "Annotation: kcp-py.io/max-watches.",
    )
    logical_cluster_request_limit: int = setting(
        integer(0, 10**6),
        0,
        LIMITS,
        "How many requests to a logical cluster one server answers per second; further ones are answered with 429. 0: no limit. "
        "Annotation: kcp-py.io/max-requests-per-second.",
    )
    logical_cluster_request_burst: int = setting(
        integer(0, 10**6),
        0,
        LIMITS,
        "How many requests to a logical cluster may come at once, beyond --logical-cluster-request-limit. 0: twice that limit. "
        "Annotation: kcp-py.io/max-request-burst.",
    )

    event_history_age: float = setting(
        DURATION, 300.0, HISTORY, "How long old revisions stay readable and watchable; older ones are compacted (sqlite, memory)."
    )
    event_history_count: int = setting(
        integer(100, 10**9), 100_000, HISTORY, "How many revisions of history are kept at most, regardless of their age (sqlite, memory)."
    )
    watch_history_bytes: int = setting(
        SIZE, 8 * 1024 * 1024, HISTORY, "Memory for recent events, from which watches resume without a read of the storage."
    )
    watch_buffer_events: int = setting(
        integer(10, 1_000_000),
        1000,
        HISTORY,
        "How many events may wait for one slow watch; beyond it the watch ends with 410 Expired and its client lists again.",
    )
