"""The options of requests: ListOptions, CreateOptions, UpdateOptions, PatchOptions, DeleteOptions, decoded and validated.

A query is a mapping from a parameter to its values in order, of which the first counts (except for `dryRun`). A parameter that cannot be
decoded is 400 BadRequest, a value that is not allowed 422 Invalid with `<Kind>.meta.k8s.io ""`; unknown parameters are ignored.

Source: apimachinery `pkg/apis/meta/v1` `conversion.go`, `validation/validation.go`, `pkg/apis/meta/internalversion/validation`,
`pkg/runtime/conversion.go` (1.37).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, cast

from kcp_py.apimachinery import errors, fielderrors
from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.meta import fieldselectors, selectors
from kcp_py.apimachinery.meta.fieldselectors import FieldSelector, parse_field_selector
from kcp_py.apimachinery.meta.names import byte_length
from kcp_py.apimachinery.meta.objectmeta import field_manager_problems
from kcp_py.apimachinery.meta.selectors import LabelSelector, parse_label_selector
from kcp_py.apimachinery.meta.table import INCLUDE_OBJECT, IncludeObject
from kcp_py.golang.quoting import go_quote

_T = TypeVar("_T")
Query = Mapping[str, Sequence[str]]
FieldValidation = Literal["Ignore", "Warn", "Strict"]

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"
BACKGROUND: Final = "Background"
FOREGROUND: Final = "Foreground"
ORPHAN: Final = "Orphan"
FIELD_MANAGER_MAX: Final = 128
MAX_DRY_RUN_SHOWN: Final = 10

_FIELD_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_PROPAGATION_POLICIES: Final = (FOREGROUND, BACKGROUND, ORPHAN)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_UNSIGNED: Final = re.compile(r"[0-9]{1,40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What to list or watch."""

    label_selector: LabelSelector = selectors.EVERYTHING
    field_selector: FieldSelector = fieldselectors.EVERYTHING
    watch: bool = False
    allow_watch_bookmarks: bool = False
    resource_version: str = ""
    resource_version_match: str = ""
    """Empty, `Exact` or `NotOlderThan`."""
    timeout_seconds: int | None = None
    limit: int = 0
    """The most items of a page; 0 means all."""
    continue_token: str = ""
    send_initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class CreateOptions:
    """How to create; UpdateOptions have the same fields."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = "Warn"


@dataclass(frozen=True, slots=True)
class UpdateOptions(CreateOptions):
    """How to update."""


@dataclass(frozen=True, slots=True)
class PatchOptions(CreateOptions):
    """How to patch."""

    force: bool | None = None


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must be true of the object that is deleted."""

    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete."""

    dry_run: bool = False
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    """`Background`, `Foreground` or `Orphan`."""


_NO_LIST_OPTIONS: Final = ListOptions()
_NO_CREATE_OPTIONS: Final = CreateOptions()
_NO_UPDATE_OPTIONS: Final = UpdateOptions()
_NO_PATCH_OPTIONS: Final = PatchOptions()
_NO_DELETE_OPTIONS: Final = DeleteOptions()


def decode_list_options(query: Query) -> ListOptions:
    """ListOptions of a list, a watch or a collection delete.

    Raises:
        StatusError: 400 or 422.
    """
    if not query:
        return _NO_LIST_OPTIONS
    try:
        options = ListOptions(
            label_selector=parse_label_selector(_text(query, "labelSelector")),
            field_selector=parse_field_selector(_text(query, "fieldSelector")),
            watch=_flag(query, "watch") or False,
            allow_watch_bookmarks=_flag(query, "allowWatchBookmarks") or False,
            resource_version=_text(query, "resourceVersion"),
            resource_version_match=_text(query, "resourceVersionMatch"),
            timeout_seconds=_integer(query, "timeoutSeconds"),
            # Upstream's stores page where the limit is above zero.
            limit=max(0, _integer(query, "limit") or 0),
            continue_token=_text(query, "continue"),
            send_initial_events=_flag(query, "sendInitialEvents"),
        )
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    if options.resource_version_match or options.send_initial_events is not None:
        problems = _watch_problems(options) if options.watch else _list_problems(options)
        _refuse("ListOptions", problems)
    if options.continue_token and not options.watch and options.resource_version not in {"", "0"}:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    return options


def _list_problems(options: ListOptions) -> list[FieldError]:
    problems: list[FieldError] = []
    match = options.resource_version_match
    field = "resourceVersionMatch"
    if match:
        if not options.resource_version:
            problems.append(fielderrors.forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            problems.append(fielderrors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in {EXACT, NOT_OLDER_THAN}:
            problems.append(fielderrors.not_supported(field, match, [EXACT, NOT_OLDER_THAN, ""]))
        if match == EXACT and options.resource_version == "0":
            problems.append(fielderrors.forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        problems.append(fielderrors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return problems


def _watch_problems(options: ListOptions) -> list[FieldError]:
    problems: list[FieldError] = []
    match = options.resource_version_match
    field = "resourceVersionMatch"
    if options.send_initial_events is not None and match != NOT_OLDER_THAN:
        problems.append(fielderrors.forbidden(field, f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"))
    if match:
        if options.send_initial_events is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problems.append(fielderrors.forbidden(field, detail))
        if match != NOT_OLDER_THAN:
            problems.append(fielderrors.not_supported(field, match, [NOT_OLDER_THAN]))
        if options.continue_token:
            problems.append(fielderrors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    return problems


def parse_resource_version(text: str) -> int:
    """The revision that a resourceVersion stands for; 0 for the empty text.

    Raises:
        StatusError: 400, not an unsigned 64 bit number (apiserver `pkg/storage/cacher`).
    """
    if not text:
        return 0
    if _UNSIGNED.fullmatch(text) is None:
        problem = "invalid syntax"
    elif (revision := int(text)) < 2**64:
        return revision
    else:
        problem = "value out of range"
    detail = f"strconv.ParseUint: parsing {go_quote(text)}: {problem}"
    raise errors.bad_request(f"invalid resource version: {fielderrors.invalid('resourceVersion', text, detail)}")


def decode_create_options(query: Query) -> CreateOptions:
    """CreateOptions of a POST.

    Raises:
        StatusError: 422.
    """
    if not query:
        return _NO_CREATE_OPTIONS
    dry_run, field_manager, field_validation = _write_options("CreateOptions", query, [])
    return CreateOptions(dry_run, field_manager, field_validation)


def decode_update_options(query: Query) -> UpdateOptions:
    """UpdateOptions of a PUT.

    Raises:
        StatusError: 422.
    """
    if not query:
        return _NO_UPDATE_OPTIONS
    dry_run, field_manager, field_validation = _write_options("UpdateOptions", query, [])
    return UpdateOptions(dry_run, field_manager, field_validation)


def decode_patch_options(query: Query, *, apply: bool) -> PatchOptions:
    """PatchOptions of a PATCH; `apply` tells server-side apply from the other patch types.

    Raises:
        StatusError: 422.
    """
    if not query and not apply:
        return _NO_PATCH_OPTIONS
    force = _flag(query, "force")
    problems: list[FieldError] = []
    if apply:
        if not _text(query, "fieldManager"):
            problems.append(fielderrors.required("fieldManager", "is required for apply patch"))
    elif force is not None:
        problems.append(fielderrors.forbidden("force", "may not be specified for non-apply patch"))
    dry_run, field_manager, field_validation = _write_options("PatchOptions", query, problems)
    return PatchOptions(dry_run, field_manager, field_validation, force)


def decode_delete_options(query: Query, body: Mapping[str, Any] | None = None) -> DeleteOptions:
    """DeleteOptions of a DELETE: from the decoded `body` when there is one, else from the query.

    A negative grace period becomes 1, as upstream's `BeforeDelete` makes it.

    Raises:
        StatusError: 400 or 422.
    """
    if not query and body is None:
        return _NO_DELETE_OPTIONS
    try:
        options, dry_run = _delete_options_of_query(query) if body is None else _delete_options_of_body(body)
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    policy = options.propagation_policy
    problems: list[FieldError] = []
    if policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(fielderrors.invalid("propagationPolicy", policy, detail))
    if policy is not None and policy not in _PROPAGATION_POLICIES:
        problems.append(fielderrors.not_supported("propagationPolicy", policy, [*_PROPAGATION_POLICIES, "nil"]))
    problems += _dry_run_problems(dry_run)
    _refuse("DeleteOptions", problems)
    return options


def _delete_options_of_query(query: Query) -> tuple[DeleteOptions, Sequence[str]]:
    dry_run = query.get("dryRun") or ()
    uid = _text(query, "uid") or None
    resource_version = _text(query, "resourceVersion") or None
    policies = query.get("propagationPolicy")
    options = DeleteOptions(
        dry_run=bool(dry_run),
        grace_period_seconds=_grace(_integer(query, "gracePeriodSeconds")),
        preconditions=Preconditions(uid, resource_version) if uid or resource_version else None,
        orphan_dependents=_flag(query, "orphanDependents"),
        propagation_policy=policies[0] if policies else None,
    )
    return options, dry_run


def _delete_options_of_body(body: Mapping[str, Any]) -> tuple[DeleteOptions, Sequence[str]]:
    if (_typed(body.get("kind"), str, "kind", "string") or "DeleteOptions") != "DeleteOptions":
        raise ValueError("decoded object cannot be converted to DeleteOptions")
    grace = body.get("gracePeriodSeconds")
    if isinstance(grace, bool) or not (grace is None or (isinstance(grace, int) and -(2**63) <= grace < 2**63)):
        raise ValueError(_mistyped(grace, "gracePeriodSeconds", "int64"))
    dry_run = body.get("dryRun")
    if not (dry_run is None or isinstance(dry_run, list)):
        raise ValueError(_mistyped(dry_run, "dryRun", "[]string"))
    for value in dry_run or ():
        _typed(value, str, "dryRun", "string")
    preconditions = _typed(body.get("preconditions"), dict, "preconditions", "v1.Preconditions")
    options = DeleteOptions(
        dry_run=bool(dry_run),
        grace_period_seconds=_grace(grace),
        preconditions=None
        if preconditions is None
        else Preconditions(
            _typed(preconditions.get("uid"), str, "preconditions.uid", "types.UID"),
            _typed(preconditions.get("resourceVersion"), str, "preconditions.resourceVersion", "string"),
        ),
        orphan_dependents=_typed(body.get("orphanDependents"), bool, "orphanDependents", "bool"),
        propagation_policy=_typed(body.get("propagationPolicy"), str, "propagationPolicy", "v1.DeletionPropagation"),
    )
    return options, [value or "" for value in dry_run or ()]


def decode_include_object(query: Query) -> IncludeObject:
    """What the rows of a Table carry, from `includeObject`.

    Raises:
        StatusError: 400.
    """
    value = _text(query, "includeObject") or "Metadata"
    if value not in INCLUDE_OBJECT:
        problem = fielderrors.invalid("includeObject", value, "must be 'Metadata', 'Object', 'None', or empty")
        raise errors.bad_request(f"Unable to convert to Table as requested: {problem}")
    return cast("IncludeObject", value)


def manager_or_user_agent(field_manager: str, user_agent: str) -> str:
    """The field manager of a write: the one asked for, else what stands before the first `/` of the User-Agent."""
    if field_manager:
        return field_manager
    manager = user_agent.partition("/")[0]
    if manager.isprintable() and manager.isascii():
        return manager[:FIELD_MANAGER_MAX]
    kept: list[str] = []
    room = FIELD_MANAGER_MAX
    for character in manager[: FIELD_MANAGER_MAX * 4]:
        if character.isprintable():
            room -= byte_length(character)
            if room < 0:
                break
            kept.append(character)
    return "".join(kept)


def _write_options(kind: str, query: Query, problems: list[FieldError]) -> tuple[bool, str, FieldValidation]:
    field_manager = _text(query, "fieldManager")
    field_validation = _text(query, "fieldValidation")
    dry_run = query.get("dryRun") or ()
    problems += field_manager_problems(field_manager, "fieldManager")
    problems += _dry_run_problems(dry_run)
    if field_validation not in _FIELD_VALIDATIONS:
        problems.append(fielderrors.not_supported("fieldValidation", field_validation, _FIELD_VALIDATIONS))
    _refuse(kind, problems)
    return bool(dry_run), field_manager, cast("FieldValidation", field_validation or "Warn")


def _dry_run_problems(dry_run: Sequence[str]) -> list[FieldError]:
    if not dry_run or all(value == "All" for value in dry_run):
        return []
    return [fielderrors.not_supported("dryRun", list(dry_run[:MAX_DRY_RUN_SHOWN]), ["All"])]


def _refuse(kind: str, problems: list[FieldError]) -> None:
    if problems:
        raise errors.invalid(f"{kind}.meta.k8s.io", "", problems)


def _text(query: Query, parameter: str) -> str:
    values = query.get(parameter)
    return values[0] if values else ""


def _flag(query: Query, parameter: str) -> bool | None:
    """Only `0` and `false` are false: even an empty value is true."""
    values = query.get(parameter)
    if not values:
        return None
    return values[0] != "0" and values[0].lower() != "false"


def _integer(query: Query, parameter: str) -> int | None:
    values = query.get(parameter)
    if not values:
        return None
    if _INTEGER.fullmatch(values[0]) is None:
        raise ValueError(f"strconv.ParseInt: parsing {go_quote(values[0])}: invalid syntax")
    number = int(values[0])
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"strconv.ParseInt: parsing {go_quote(values[0])}: value out of range")
    return number


def _grace(seconds: int | None) -> int | None:
    return 1 if seconds is not None and seconds < 0 else seconds


def _typed(value: Any, wanted: type[_T], field: str, go_type: str) -> _T | None:
    if value is None or isinstance(value, wanted):
        return value
    raise ValueError(_mistyped(value, field, go_type))


def _mistyped(value: Any, field: str, go_type: str) -> str:
    kinds = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    struct = "Preconditions" if field.startswith("preconditions.") else "DeleteOptions"
    return f"json: cannot unmarshal {kinds.get(type(value), 'value')} into Go struct field {struct}.{field} of type {go_type}"
