"""The messages of etcd's v3 API that the driver uses, and the calls that carry them.

They have their own descriptor pool, because another etcd library in the same process would register the same names in the default pool and
fail. Only numbers and types are transmitted. Enumerations are therefore plain integers, `oneof`s are plain fields, and unused fields are
omitted (field numbers: etcd's `rpc.proto`, `kv.proto`; stable since 3.0 except where noted).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_SCALARS: Final = {
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
}

# Fields: number, name, type; a star marks a repeated field.
_FIELDS: Final = {
    "KeyValue": "1 key bytes, 2 create_revision int64, 3 mod_revision int64, 4 version int64, 5 value bytes, 6 lease int64",
    "Event": "1 type int32, 2 kv KeyValue, 3 prev_kv KeyValue",
    "ResponseHeader": "1 cluster_id uint64, 2 member_id uint64, 3 revision int64, 4 raft_term uint64",
    "RangeRequest": (
        "1 key bytes, 2 range_end bytes, 3 limit int64, 4 revision int64, 7 serializable bool, 8 keys_only bool, 9 count_only bool"
    ),
    "RangeResponse": "1 header ResponseHeader, 2 kvs *KeyValue, 3 more bool, 4 count int64",
    "PutRequest": "1 key bytes, 2 value bytes, 3 lease int64",
    "PutResponse": "1 header ResponseHeader",
    "DeleteRangeRequest": "1 key bytes, 2 range_end bytes",
    "RequestOp": (
        "1 request_range RangeRequest, 2 request_put PutRequest, 3 request_delete_range DeleteRangeRequest, 4 request_txn TxnRequest"
    ),
    "ResponseOp": "1 response_range RangeResponse",
    "Compare": "1 result int32, 2 target int32, 3 key bytes, 5 create_revision int64, 6 mod_revision int64",
    "TxnRequest": "1 compare *Compare, 2 success *RequestOp, 3 failure *RequestOp",
    "TxnResponse": "1 header ResponseHeader, 2 succeeded bool, 3 responses *ResponseOp",
    "CompactionRequest": "1 revision int64, 2 physical bool",
    "CompactionResponse": "1 header ResponseHeader",
    # fragment: since 3.4
    "WatchCreateRequest": (
        "1 key bytes, 2 range_end bytes, 3 start_revision int64, 4 progress_notify bool, 6 prev_kv bool, 7 watch_id int64, 8 fragment bool"
    ),
    "WatchCancelRequest": "1 watch_id int64",
    # since 3.4
    "WatchProgressRequest": "",
    "WatchRequest": "1 create_request WatchCreateRequest, 2 cancel_request WatchCancelRequest, 3 progress_request WatchProgressRequest",
    "WatchResponse": (
        "1 header ResponseHeader, 2 watch_id int64, 3 created bool, 4 canceled bool, 5 compact_revision int64, 6 cancel_reason string, "
        "7 fragment bool, 11 events *Event"
    ),
    "AuthenticateRequest": "1 name string, 2 password string",
    "AuthenticateResponse": "1 header ResponseHeader, 2 token string",
    "StatusRequest": "",
    "StatusResponse": (
        "1 header ResponseHeader, 2 version string, 3 db_size int64, 4 leader uint64, 8 errors *string, 9 db_size_in_use int64"
    ),
    "AlarmRequest": "1 action int32, 2 member_id uint64, 3 alarm int32",
    "AlarmMember": "1 member_id uint64, 2 alarm int32",
    "AlarmResponse": "1 header ResponseHeader, 2 alarms *AlarmMember",
}

PUT: Final = 0
"""`Event.type`."""
DELETE: Final = 1
"""`Event.type`."""
COMPARE_CREATE: Final = 1
"""`Compare.target`; `Compare.result` stays 0, which is "equal"."""
COMPARE_MOD: Final = 2
"""`Compare.target`."""
STREAM_WIDE: Final = -1
"""`WatchResponse.watch_id` of the answer to a progress request."""


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="kcp_py/etcd.proto", package="etcd", syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for text in filter(None, fields.split(", ")):
            number, field_name, type_name = text.split(" ")
            field = message.field.add(name=field_name, number=int(number))
            repeated = type_name.startswith("*")
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            element = type_name.removeprefix("*")
            if element in _SCALARS:
                field.type = _SCALARS[element]
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".etcd.{element}"
    return file


_pool: Final = descriptor_pool.DescriptorPool()
_pool.Add(_file())  # type: ignore[no-untyped-call, unused-ignore]


def message_class(name: str) -> Any:
    """The class of a message in the table above."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"etcd.{name}"))


class Method(NamedTuple):
    """One call of the API."""

    path: str
    serialize: Any
    """Message -> bytes."""
    deserialize: Any
    """Bytes -> message."""


def _method(path: str, request: str, response: str) -> Method:
    return Method(f"/etcdserverpb.{path}", message_class(request).SerializeToString, message_class(response).FromString)


RANGE: Final = _method("KV/Range", "RangeRequest", "RangeResponse")
TXN: Final = _method("KV/Txn", "TxnRequest", "TxnResponse")
COMPACT: Final = _method("KV/Compact", "CompactionRequest", "CompactionResponse")
WATCH: Final = _method("Watch/Watch", "WatchRequest", "WatchResponse")
AUTHENTICATE: Final = _method("Auth/Authenticate", "AuthenticateRequest", "AuthenticateResponse")
STATUS: Final = _method("Maintenance/Status", "StatusRequest", "StatusResponse")
ALARM: Final = _method("Maintenance/Alarm", "AlarmRequest", "AlarmResponse")

RangeRequest: Final = message_class("RangeRequest")
PutRequest: Final = message_class("PutRequest")
DeleteRangeRequest: Final = message_class("DeleteRangeRequest")
RequestOp: Final = message_class("RequestOp")
CompareRequest: Final = message_class("Compare")
TxnRequest: Final = message_class("TxnRequest")
CompactionRequest: Final = message_class("CompactionRequest")
WatchCreateRequest: Final = message_class("WatchCreateRequest")
WatchProgressRequest: Final = message_class("WatchProgressRequest")
WatchRequest: Final = message_class("WatchRequest")
AuthenticateRequest: Final = message_class("AuthenticateRequest")
StatusRequest: Final = message_class("StatusRequest")
AlarmRequest: Final = message_class("AlarmRequest")
