"""Every event that the server logs: its name, levels, fields and meaning. docs/logs.md is generated from this table.

A name is in snake_case and a literal in the call that logs it, so that a search finds it. `hack/verify_log_events.py` compares
both. Fields that are always there (`timestamp`, `level`, `event`) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class LogEvent(NamedTuple):
    """The documentation of an event."""

    levels: tuple[str, ...]
    fields: tuple[str, ...]
    """The possible fields; a line may lack some of them."""
    meaning: str


def _event(levels: str, fields: str, meaning: str) -> LogEvent:
    return LogEvent(tuple(levels.split()), tuple(fields.split()), meaning)


LOG_EVENTS: Final[Mapping[str, LogEvent]] = MappingProxyType(
    {
        "accept_failed": _event(
            "warning", "reason", "The system refused a new connection. The server tries again after 0.1 s. Logged once a minute at most."
        ),
        "application_failed": _event(
            "error", "reason", "A request ended without an answer of the API because of a fault in the program: please report it."
        ),
        "authorization_configuration_not_reloaded": _event(
            "error", "file error", "The changed file of `--authorization-config` cannot be used. The present configuration stays in use."
        ),
        "authorization_configuration_reloaded": _event(
            "info", "file", "The changed file of `--authorization-config` is in use. Kept answers of webhooks are dropped."
        ),
        "authorization_webhook_failed": _event(
            "warning",
            "webhook error",
            "A webhook of the authorization configuration gave no decision. Logged every 10 s at most for each webhook.",
        ),
        "authentication_not_reloaded": _event(
            "warning", "file error", "The changed file of --authentication-config is invalid or cannot be read. The old issuers stay valid."
        ),
        "authentication_reloaded": _event("info", "file", "The changed file of --authentication-config is in use."),
        "authentication_webhook_failed": _event(
            "warning",
            "error",
            "The webhook of `--authentication-token-webhook-config-file` gave no usable answer: tokens that only it knows are refused. "
            "Logged every 10 s at most.",
        ),
        "ca_bundle_injected": _event("info", "apiservice", "The authority of the serving certificate is in the APIService."),
        "ca_bundle_not_injected": _event(
            "warning",
            "apiservice error",
            "The authority of the serving certificate cannot be written into the APIService yet. The server tries again after 5 s.",
        ),
        "certificate_expires_soon": _event(
            "warning",
            "file not_after",
            "A certificate that the server cannot renew itself ends within 30 days. Logged at the start and every day. Replace the file.",
        ),
        "certificates_issued": _event(
            "info",
            "directory",
            "The server's own certificates were created at the first start, or renewed because they end soon or lack a name.",
        ),
        "certificates_not_reloaded": _event(
            "warning", "error", "Changed certificate files cannot be used, or renewal failed. The present certificates stay in use."
        ),
        "certificates_reloaded": _event("info", "", "Changed certificate files are in use for new connections."),
        "client_authentication_changed": _event(
            "info", "file", "The API server that forwards requests publishes another authority. It is in use within 3 s."
        ),
        "client_authentication_missing": _event(
            "warning", "configmap", "The API server that forwards requests publishes no authorities: it has no front proxies."
        ),
        "client_authentication_not_found": _event("warning", "error", "The published authorities of clients cannot be read yet."),
        "client_authentication_not_read": _event(
            "warning", "error", "The published ConfigMap has a wrong value. The last one stays in use."
        ),
        "client_authentication_not_written": _event(
            "warning", "file error", "A published authority cannot be kept in a file. The last one stays in use."
        ),
        "client_authorities_changed": _event(
            "info",
            "revoked_connections",
            "Other authorities of client certificates are accepted than before. `revoked_connections` of the open connections have a "
            "certificate that is not accepted any more: their streams were ended, and their next requests are answered with 401.",
        ),
        "compaction_failed": _event("warning", "error retry_seconds", "The store's history cannot be compacted. Logged once per outage."),
        "compaction_recovered": _event("info", "", "The store's history is compacted again."),
        "connections_exhausted": _event(
            "warning", "reason", "The limit on open files allows no further connection; new ones wait. Logged once a minute at most."
        ),
        "connections_refused": _event(
            "warning",
            "reason",
            "A client address has as many connections as `--max-connections-per-address` allows. Logged once a minute at most.",
        ),
        "controllers_started": _event(
            "info",
            "version url controllers",
            "`kcp-py controllers` runs the controllers of the server at `url`, or waits until it is elected.",
        ),
        "controllers_stopped": _event("info", "", "`kcp-py controllers` ends after a signal."),
        "credentials_not_reloaded": _event(
            "warning", "error", "The token file or the certificates of a kubeconfig cannot be read. The last ones stay in use."
        ),
        "definition_not_served": _event(
            "warning",
            "cluster name error",
            "A stored CustomResourceDefinition cannot be compiled. Its resource is not served in that cluster.",
        ),
        "delegate_not_followed": _event(
            "warning",
            "path error",
            "The API server that forwards requests does not answer a list or a watch. The server tries again after 1 s.",
        ),
        "descriptions_missing": _event(
            "info", "reason", "`kubectl explain` shows no descriptions of Kubernetes' own kinds. Install the extra `explain`."
        ),
        "etcd_outdated": _event(
            "warning", "", "etcd is older than 3.4.31 or 3.5.13. It works, but every watch reads all keys. Upgrade etcd."
        ),
        "etcd_watch_interrupted": _event(
            "warning", "prefix revision error", "The watch of etcd ended: a member or the network failed. Logged once per outage."
        ),
        "etcd_watch_resumed": _event(
            "info", "prefix revision seconds", "The watch of etcd goes on behind the last event that was delivered."
        ),
        "etcd_went_back": _event(
            "error",
            "revision seen",
            "etcd is at an earlier revision than before: it was restored or emptied. Watches end, and caches are read anew.",
        ),
        "conversion_failed": _event(
            "error", "function error exception", "A conversion function of a type failed for an object. The request is answered with 500."
        ),
        "event_loop_held": _event(
            "warning",
            "function seconds",
            "A function of the program holds up the event loop, and with it all requests, for so long by now. It is reported again "
            "after ten times as long.",
        ),
        "event_not_recorded": _event(
            "debug error",
            "controller cluster error",
            "A reconcile function recorded an event that cannot be written, as in a namespace that is going.",
        ),
        "feed_restarted": _event(
            "warning",
            "revision watches",
            "Events of the store may have been missed. Caches are dropped, and all watches end; their clients resume from history.",
        ),
        "feed_started": _event("debug", "revision", "The changes of the store are followed from this revision on."),
        "follow_failed": _event(
            "warning",
            "objects error",
            "A list or a watch of an informer failed. It is tried again ever more slowly. Logged once for as long as it lasts.",
        ),
        "front_proxy_refused": _event(
            "debug",
            "error",
            "A request with the certificate of a front proxy cannot be made as the user that its headers name: the certificate has another "
            "name, or the user is one of another logical cluster.",
        ),
        "handler_failed": _event("error", "handler name", "A function that an informer calls with changes failed. The others are called."),
        "health_check_failed": _event("warning", "check error", "A health check began to fail. Logged once until it passes again."),
        "health_check_recovered": _event("info", "check", "A health check that failed passes again."),
        "indexer_failed": _event(
            "error", "index name", "The function of an index of an informer failed for an object, which the index leaves out."
        ),
        "key_not_migrated": _event(
            "warning", "key target", "An object stays under its old key, because another object has the new one. It cannot be reached."
        ),
        "keys_failed": _event(
            "error", "controller cluster function", "The function `keys` of a controller failed for a change. The change is left out."
        ),
        "keys_migrated": _event("info", "objects", "Objects that an earlier version stored were moved to unambiguous keys."),
        "leader_elected": _event("info", "identity", "This process has become the leader and begins to run the controllers."),
        "leader_election_failed": _event(
            "warning", "identity error", "The Lease of the controllers cannot be read or written. The process tries again."
        ),
        "leader_lost": _event(
            "warning", "identity", "This process could not renew the Lease of the controllers. It has stopped them, and competes again."
        ),
        "legacy_token_use_not_recorded": _event(
            "warning",
            "cluster namespace name error",
            "The day of the last use of a token could not be written to its secret. Tried again at a use after ten minutes.",
        ),
        "library_message": _event("warning error critical", "logger message", "A message of a library at level warning or above."),
        "list_failed": _event(
            "error",
            "audit_id cluster resource function",
            "The code that serves a computed resource failed in a list over all clusters. The objects of the cluster are left out.",
        ),
        "long_request_not_checked": _event(
            "warning",
            "error function",
            "It could not be found out whether the caller of a running watch is still known and allowed. It goes on until the next check.",
        ),
        "object_ignored": _event("error", "objects error", "An informer left out an object without a name or a cluster."),
        "object_unreadable": _event(
            "warning",
            "controller cluster namespace name error",
            "An object does not fit the class of a reconcile function, which leaves it out until it changes.",
        ),
        "pages_served": _event("info", "url", "`kcp-py controllers` serves its health and its metrics at this URL."),
        "provider_failed": _event(
            "warning",
            "issuer cluster error",
            "The keys of an OpenID Connect provider cannot be fetched. Logged once per outage. Keys from earlier stay valid; "
            "without any, the provider's users are refused. `cluster` is empty for a provider of the operator.",
        ),
        "provider_recovered": _event("info", "issuer cluster", "The keys of an OpenID Connect provider can be fetched again."),
        "process_ended": _event(
            "error",
            "process child_pid signal exit_code",
            "A process of a server with several has ended by itself or by a signal. It is started again; with the `owner` all are.",
        ),
        "process_killed": _event("warning", "process child_pid", "A process that was to end has not done so in time, and was killed."),
        "process_started": _event("info", "process child_pid", "A process of a server with several processes was started."),
        "process_unresponsive": _event(
            "error",
            "process child_pid seconds",
            "A process of a server with several has not answered for `--process-timeout`, and is killed: it was stopped, or hangs.",
        ),
        "proxy_cache_dropped": _event(
            "info",
            "path bytes reason",
            "The proxy has dropped a cache that was idle, or that did not fit into the memory. The next read loads it again.",
        ),
        "proxy_cache_failed": _event(
            "error",
            "path error",
            "A cache of the proxy has ended because of a fault in the program: please report it. Reads are passed on for 30 s.",
        ),
        "proxy_cache_refused": _event(
            "info", "path reason", "The API server does not let the proxy list or watch a resource. Reads are passed on for 30 s."
        ),
        "proxy_credentials_failed": _event(
            "warning", "error", "A program has given the proxy no credentials for the API server, which is not reachable without them."
        ),
        "proxy_upstream_lost": _event(
            "warning", "path error", "The proxy cannot follow the changes of a resource. It tries again, after 5 s at the most."
        ),
        "reconcile_failed": _event(
            "warning error", "controller cluster name error", "A controller could not bring an object to its wanted state. It tries again."
        ),
        "reconcile_hangs": _event(
            "error",
            "controller cluster namespace name seconds",
            "A reconcile function in a thread has run for so long. The object is not looked at again before its end.",
        ),
        "reconciling_started": _event("info", "controllers", "This process runs reconcile functions from now on."),
        "reconciling_stopped": _event("info", "", "This process has stopped its reconcile functions."),
        "request": _event(
            "info warning",
            "audit_id method path cluster verb status duration_seconds bytes user peer user_agent suppressed",
            "A request has ended (access log). The level is warning for status 500 and above. "
            "`suppressed` problems before it were not logged.",
        ),
        "request_failed": _event(
            "error",
            "audit_id method status function",
            "An unexpected error, with the function of the program where it comes from one. The client received status 500 and the same "
            "audit id.",
        ),
        "requests_cancelled": _event("warning", "requests", "The grace period of a stop ended before these requests did."),
        "server_killed": _event("warning", "signal", "A second signal ended the process at once."),
        "server_started": _event(
            "info",
            "version python address url storage root_directory pid uid root_cluster_uid seconds",
            "Connections are accepted. `uid` is the process's user; `root_cluster_uid` identifies the data; `seconds` is the time of "
            "the start.",
        ),
        "server_stopped": _event("info", "uptime_seconds", "The server has stopped in order."),
        "server_stopping": _event("info", "signal grace_seconds", "A signal began an orderly stop. Readiness fails and watches end."),
        "service_account_key_published": _event(
            "info",
            "kid keys",
            "A new key for tokens of service accounts was published. It signs two hours later. `keys` is the number of valid keys.",
        ),
        "service_address_shared": _event(
            "warning",
            "cluster namespace name address",
            "A service has an address or a port of a node that another service of its cluster has, from a time before "
            "`--service-cluster-ip-range` was set. Both keep it.",
        ),
        "shutdown_hook_failed": _event("error", "", "An error while the stop began. The server stops nevertheless."),
        "source_failed": _event(
            "error",
            "source cluster function",
            "A source of resources failed at a change of the store or in a request over all clusters. Other sources go on.",
        ),
        "storage_checkpoint_failed": _event(
            "error",
            "error",
            "The write-ahead log could not be copied into the database file, and grows. Nothing is lost. Check the disk.",
        ),
        "storage_compacted": _event(
            "debug info", "revision", "History up to this revision was removed (info: of an etcd that servers share)."
        ),
        "storage_damaged": _event("error", "key error", "The checksum of a stored object is wrong. Restore a backup; see `kcp-py doctor`."),
        "storage_full": _event(
            "error", "free_bytes", "The disk is full. Deletions and small changes are taken, and nothing else. See `docs/storage.md`."
        ),
        "storage_log_cut_short": _event(
            "warning", "path error", "The write-ahead log ends with a commit that is not complete. That commit counts as never made."
        ),
        "storage_log_damaged": _event(
            "error", "error", "The write-ahead log is damaged under the running server. No write is taken. Stop it and restore a backup."
        ),
        "storage_migrated": _event("info", "path format", "The database file has the new format."),
        "storage_migration_progress": _event("info", "path rows total", "How many rows of the database have the new format."),
        "storage_migration_started": _event(
            "info", "path format", "The database file is converted to a new format. It needs as much room again meanwhile."
        ),
        "storage_not_reopened": _event("warning", "error retry_seconds", "The database could not be opened after a failed write yet."),
        "storage_recovered": _event("info", "seconds", "The store answers again."),
        "storage_reopened": _event("warning", "revision", "The database was opened after a failed write. Writes are taken again."),
        "storage_request_failed": _event(
            "error", "", "A request of another process to the store failed because of a fault in the program: please report it."
        ),
        "storage_room_again": _event("warning", "free_bytes", "The disk has room again. All writes are taken."),
        "storage_unavailable": _event(
            "error", "error", "The store does not answer. Logged once per outage; requests fail with 503 or 500."
        ),
        "storage_went_back": _event(
            "error",
            "revision seen",
            "The shared store is at an earlier revision than before: it was restored. The cache is dropped; watches end with 410.",
        ),
        "storage_write_failed": _event(
            "error",
            "error synced",
            "The system refused a write (or, not `synced`, could not bring it to the disk). No write is taken until the disk takes it.",
        ),
        "store_owner_lost": _event(
            "error", "", "The process that owns the store has gone. This process ends and is started again with the next owner."
        ),
        "stream_failed": _event(
            "error",
            "audit_id cluster subresource",
            "The code that serves a streaming subresource failed. The client gets 500, or the end of the stream if it has begun.",
        ),
        "subresource_not_attached": _event(
            "warning",
            "subresource reason",
            "A subresource of the program is not served in a cluster, because its CRD defines one of the same name. Logged once.",
        ),
        "task_failed": _event(
            "error", "task error restart_seconds", "A background task failed. It starts again after the seconds that are named."
        ),
        "token_refused": _event(
            "debug", "issuer error", "A token with a valid signature gives no user: a claim or a validation rule is not as required."
        ),
        "tokens_reloaded": _event("info", "", "Changed token files are in use."),
        "watch_cache_lost": _event(
            "warning",
            "revision error",
            "The watch of the shared store ended. Reads come from the store, and watches of clients end, until it has started again.",
        ),
        "watch_failed": _event(
            "error",
            "audit_id cluster resource function",
            "The code that serves a computed resource failed during a watch. The client gets an ERROR event without details. A watch over "
            "all clusters goes on: the client gets DELETED for the objects of the cluster, whose watch begins again later.",
        ),
    }
)
