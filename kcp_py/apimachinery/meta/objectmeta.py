"""ObjectMeta: what it may hold, and what must not change (k8s.io/apimachinery `pkg/api/validation/objectmeta.go`, 1.37).

Everything here works on the decoded `metadata` of an object after `decoding` has checked its types. All problems are returned,
except that hostile input is cut at `MAX_PROBLEMS` per map or list, because each problem repeats a long rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from kcp_py.apimachinery import fielderrors
from kcp_py.apimachinery.fielderrors import FieldError, Printed, invalid
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.decoding import OWNER_REFERENCE_FIELDS, prune_object_meta, type_problem
from kcp_py.apimachinery.meta.names import NameRule, byte_length
from kcp_py.golang.quoting import go_quote

__all__ = [
    "FINALIZER_FOREGROUND",
    "FINALIZER_KUBERNETES",
    "FINALIZER_ORPHAN",
    "MAX_PROBLEMS",
    "TOTAL_ANNOTATION_SIZE_LIMIT",
    "deduplicate_owner_references",
    "field_manager_problems",
    "finalizer_warnings",
    "keeps_valid",
    "label_problems",
    "prune_object_meta",
    "type_problem",
    "unqualified_finalizer_problems",
    "validate_object_meta",
    "validate_object_meta_update",
]

FINALIZER_ORPHAN: Final = "orphan"
FINALIZER_FOREGROUND: Final = "foregroundDeletion"
FINALIZER_KUBERNETES: Final = "kubernetes"
_STANDARD_FINALIZERS: Final = frozenset({FINALIZER_ORPHAN, FINALIZER_FOREGROUND, FINALIZER_KUBERNETES})

TOTAL_ANNOTATION_SIZE_LIMIT: Final = 256 * 1024
"""Bytes of all annotation keys and values together."""
MAX_PROBLEMS: Final = 100
_FIELD_MANAGER_MAX: Final = 128
_SUBRESOURCE_MAX: Final = 256
_VALIDATED_OF_ENTRIES: Final = ("manager", "operation", "fieldsType", "subresource")
_LABEL_KEY_MAX: Final = 253 + 1 + 63
_IMMUTABLE: Final = ("name", "namespace", "uid")
_IMMUTABLE_NULLABLE: Final = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_ALL_IMMUTABLE: Final = _IMMUTABLE + _IMMUTABLE_NULLABLE


@lru_cache(maxsize=4096)
def _is_label_key(key: str) -> bool:
    return not names.qualified_name_problems(key)


@lru_cache(maxsize=4096)
def _is_annotation_key(key: str) -> bool:
    return not names.qualified_name_problems(key.lower())


def validate_object_meta(meta: Mapping[str, Any], *, namespaced: bool, validate_name: NameRule, path: str = "metadata") -> list[FieldError]:
    """The problems of the metadata of an object that is being created, after its name was generated."""
    errors: list[FieldError] = []
    get = meta.get
    if generate_name := get("generateName"):
        errors += _invalid(f"{path}.generateName", generate_name, names.prefix_problems(validate_name, generate_name))
    if name := get("name"):
        if problems := validate_name(name):
            errors += _invalid(f"{path}.name", name, problems)
    else:
        errors.append(fielderrors.required(f"{path}.name", "name or generateName is required"))
    namespace = get("namespace")
    if namespaced:
        if not namespace:
            errors.append(fielderrors.required(f"{path}.namespace"))
        elif problems := names.dns_label_problems(namespace):
            errors += _invalid(f"{path}.namespace", namespace, problems)
    elif namespace:
        errors.append(fielderrors.forbidden(f"{path}.namespace", "not allowed on this type"))
    if (generation := get("generation") or 0) < 0:
        errors.append(_negative_generation(generation, path))
    if labels := get("labels"):
        errors += label_problems(labels, f"{path}.labels")
    if annotations := get("annotations"):
        errors += annotation_problems(annotations, f"{path}.annotations")
    if references := get("ownerReferences"):
        errors += _owner_reference_problems(references, f"{path}.ownerReferences")
    if finalizers := get("finalizers"):
        errors += _finalizer_problems(finalizers, f"{path}.finalizers")
    if entries := get("managedFields"):
        errors += _managed_fields_problems(entries, f"{path}.managedFields")
    return errors


def validate_object_meta_update(
    meta: Mapping[str, Any], old: Mapping[str, Any], path: str = "metadata", *, is_valid: bool = False
) -> list[FieldError]:
    """The problems of changing `old` into `meta`.

    Empty system fields of the request have been filled from the stored object before; whether a resourceVersion must be given depends on
    the kind and is checked by the store.

    Args:
        meta: the new metadata.
        old: the stored metadata.
        path: of both.
        is_valid: whether `validate_object_meta` has found no problem in `meta`. Upstream reports problems of labels and the like twice, so
            they are searched for again only where there are some.
    """
    errors: list[FieldError] = []
    get = meta.get
    if old.get("deletionTimestamp") is not None and (finalizers := get("finalizers")):
        extra = sorted(set(finalizers).difference(old.get("finalizers") or ()))
        if extra:
            shown = "[]string{" + ", ".join(map(go_quote, extra)) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            errors.append(fielderrors.forbidden(f"{path}.finalizers", detail))
    if (generation := get("generation") or 0) < 0:
        errors.append(_negative_generation(generation, path))
    if generation < (old.get("generation") or 0):
        errors.append(fielderrors.invalid(f"{path}.generation", generation, "must not be decremented"))
    if any([get(field) != old.get(field) for field in _ALL_IMMUTABLE]):  # noqa: C419 - a generator takes longer
        errors += [
            fielderrors.invalid(f"{path}.{field}", get(field) or "", "field is immutable")
            for field in _IMMUTABLE
            if (get(field) or "") != (old.get(field) or "")
        ]
        errors += [
            fielderrors.invalid(f"{path}.{field}", get(field), "field is immutable")
            for field in _IMMUTABLE_NULLABLE
            if get(field) != old.get(field)
        ]
    if is_valid:
        return errors
    if labels := get("labels"):
        errors += label_problems(labels, f"{path}.labels")
    if annotations := get("annotations"):
        errors += annotation_problems(annotations, f"{path}.annotations")
    if references := get("ownerReferences"):
        errors += _owner_reference_problems(references, f"{path}.ownerReferences")
    if entries := get("managedFields"):
        errors += _managed_fields_problems(entries, f"{path}.managedFields")
    return errors


def keeps_valid(meta: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether an update of valid metadata leaves alone what could make them invalid. False says nothing.

    All but the generation and the owners of fields must be the same, and all owners known.
    """
    if len(meta) != len(old):
        return False
    for field, value in meta.items():
        before = old.get(field)
        if value is before or value == before:
            continue
        if field == "generation":
            if before is None or value < before:
                return False
        elif field != "managedFields" or before is None or not _are_known(value, before):
            return False
    return True


def _are_known(entries: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each entry equals one before in all members that are validated: all but its time and its fields."""
    for entry in entries:
        manager, operation, form, subresource = map(entry.get, _VALIDATED_OF_ENTRIES)
        for one in before:
            if (
                one.get("manager") == manager
                and one.get("operation") == operation
                and one.get("fieldsType") == form
                and one.get("subresource") == subresource
            ):
                break
        else:
            return False
    return True


def _invalid(path: str, value: str, problems: list[str]) -> list[FieldError]:
    return [fielderrors.invalid(path, value, problem) for problem in problems]


def label_problems(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """The problems of a map of labels: its keys and its values."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        if not (len(key) <= _LABEL_KEY_MAX and _is_label_key(key)):
            errors += _invalid(path, key, names.qualified_name_problems(key))
        if value and (problems := names.label_value_problems(value)):
            errors += _invalid(path, value, problems)
        if len(errors) >= MAX_PROBLEMS:
            break
    return errors


def annotation_problems(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """The problems of a map of annotations: its keys, and the size of all of it."""
    errors: list[FieldError] = []
    for key in annotations:
        if not (len(key) <= _LABEL_KEY_MAX and _is_annotation_key(key)):
            errors += _invalid(path, key, names.qualified_name_problems(key.lower()))
            if len(errors) >= MAX_PROBLEMS:
                break
    characters = sum(map(len, annotations)) + sum(map(len, annotations.values()))
    # A character has at most four bytes: most annotations need no exact count.
    if characters * 4 > TOTAL_ANNOTATION_SIZE_LIMIT:
        size = sum(map(byte_length, annotations)) + sum(map(byte_length, annotations.values()))
        if size > TOTAL_ANNOTATION_SIZE_LIMIT:
            errors.append(fielderrors.too_long(path, TOTAL_ANNOTATION_SIZE_LIMIT))
    return errors


def _owner_reference_problems(references: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    for index, reference in enumerate(references):
        if len(errors) >= MAX_PROBLEMS:
            break
        errors += _one_owner_reference_problems(reference, f"{path}[{index}]")
        if reference.get("controller"):
            named = f"{reference.get('kind', '')}/{reference.get('name', '')}"
            if not controller:
                controller = named
                continue
            detail = f'Only one reference can have Controller set to true. Found "true" in references for {controller} and {named}'
            shown = Printed(orjson.dumps(list(map(_as_written, references))).decode())
            errors.append(invalid(path, shown, detail))
            # Upstream repeats the whole list for each further one: quadratic in the size of the request.
            break
    return errors


def _one_owner_reference_problems(reference: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version = reference.get("apiVersion") or ""
    group, slash, version = api_version.rpartition("/")
    if not api_version:
        errors.append(fielderrors.required(f"{path}.apiVersion", "must not be empty"))
    elif not version or "/" in group:
        errors.append(fielderrors.invalid(f"{path}.apiVersion", api_version, "must be <group>/<version> or <version>"))
    errors += [
        fielderrors.required(f"{path}.{field}", "must not be empty") for field in ("kind", "name", "uid") if not reference.get(field)
    ]
    if not slash and version == "v1" and reference.get("kind") == "Event":
        shown = Printed(orjson.dumps(_as_written(reference)).decode())
        errors.append(invalid(path, shown, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _as_written(reference: Mapping[str, Any]) -> dict[str, Any]:
    """An owner reference with its fields in the order in which upstream writes them."""
    written = {field: reference.get(field) or "" for field in OWNER_REFERENCE_FIELDS[:4]}
    written.update({field: reference[field] for field in OWNER_REFERENCE_FIELDS[4:] if reference.get(field) is not None})
    return written


def _finalizer_problems(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in finalizers:
        errors += _invalid(path, finalizer, names.qualified_name_problems(finalizer))
        if len(errors) >= MAX_PROBLEMS:
            break
    if FINALIZER_ORPHAN in finalizers and FINALIZER_FOREGROUND in finalizers:
        detail = f"finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set"
        errors.append(fielderrors.invalid(path, finalizers, detail))
    return errors


def unqualified_finalizer_problems(finalizers: Sequence[str], path: str = "metadata.finalizers") -> list[FieldError]:
    """The finalizers that name no domain and are not those of Kubernetes itself (kubernetes `pkg/apis/core/validation`)."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        fielderrors.invalid(f"{path}[{index}]", finalizer, detail)
        for index, finalizer in enumerate(finalizers[:MAX_PROBLEMS])
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _managed_fields_problems(entries: Sequence[Mapping[str, Any] | None], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, given in enumerate(entries):
        entry = given or {}
        here = f"{path}[{index}]"
        operation = entry.get("operation") or ""
        if not operation:
            errors.append(fielderrors.required(f"{here}.operation", "must not be empty"))
        elif operation not in {"Apply", "Update"}:
            errors.append(fielderrors.not_supported(f"{here}.operation", operation, ["Apply", "Update"]))
        if (fields_type := entry.get("fieldsType") or "FieldsV1") != "FieldsV1":
            errors.append(fielderrors.invalid(f"{here}.fieldsType", fields_type, "must be `FieldsV1`"))
        if manager := entry.get("manager"):
            errors += field_manager_problems(manager, f"{here}.manager")
        if (subresource := entry.get("subresource")) and byte_length(subresource) > _SUBRESOURCE_MAX:
            errors.append(fielderrors.too_long(f"{here}.subresource", _SUBRESOURCE_MAX))
        if len(errors) >= MAX_PROBLEMS:
            break
    return errors


def field_manager_problems(manager: str, path: str) -> list[FieldError]:
    """The problems of the name of a field manager; the empty name is valid."""
    errors: list[FieldError] = []
    if manager.isascii() and manager.isprintable() and len(manager) <= _FIELD_MANAGER_MAX:
        return errors
    if byte_length(manager) > _FIELD_MANAGER_MAX:
        errors.append(fielderrors.too_long(path, _FIELD_MANAGER_MAX))
    if manager.isprintable():
        return errors
    # Each problem repeats the whole text, so that a long one is told once.
    most = 1 + len(errors) if errors else MAX_PROBLEMS
    position = 0
    for character in manager:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            errors.append(fielderrors.invalid(path, manager, detail))
            if len(errors) >= most:
                break
        position += byte_length(character)
    return errors


def _negative_generation(generation: int, path: str) -> FieldError:
    return fielderrors.invalid(f"{path}.generation", generation, "must be greater than or equal to 0")


def finalizer_warnings(meta: Mapping[str, Any], old: Mapping[str, Any] | None = None, path: str = "metadata.finalizers") -> list[str]:
    """Warnings about finalizers that `meta` has and `old` has not and that are not qualified with a domain (custom resources only)."""
    finalizers = meta.get("finalizers")
    if not finalizers:
        return []
    added = set(finalizers)
    if old is not None:
        added.difference_update(old.get("finalizers") or ())
    warnings: list[str] = []
    for finalizer in sorted(added)[:MAX_PROBLEMS]:
        about = f"{path}: {go_quote(finalizer)}: "
        warnings.extend(about + problem for problem in names.qualified_name_problems(finalizer))
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            better = "domain-qualified finalizer name" + (" including a path (/)" if "." in finalizer else "")
            warnings.append(f"{about}prefer a {better} to avoid accidental conflicts with other finalizer writers")
    return warnings


def deduplicate_owner_references(meta: dict[str, Any], *, after_mutating_admission: bool = False) -> str:
    """Remove repeated owner references from `meta`, in place.

    Returns:
        The warning to send to the client, or the empty text when there was nothing to remove.
    """
    references = meta.get("ownerReferences")
    if not references or len(references) < 2:
        return ""
    kept: dict[tuple[Any, ...], Any] = {}
    duplicates: list[str] = []
    for reference in references:
        identity = tuple(reference.get(field) for field in OWNER_REFERENCE_FIELDS)
        if identity in kept:
            duplicates.append(reference.get("uid") or "")
        else:
            kept[identity] = reference
    if not duplicates:
        return ""
    meta["ownerReferences"] = list(kept.values())
    when = " after mutating admission happens" if after_mutating_admission else ""
    return (
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, "
        f"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {', '.join(duplicates)}"
    )
