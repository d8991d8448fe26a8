"""`Strategy`: the special rules of a kind, as a handful of small methods around the generic store.

Source: k8s.io/apiserver `rest.RESTCreateStrategy` and related interfaces. The generic store implements the rules of all kinds: metadata,
names, generation, optimistic lock, finalizers. A strategy adds the rules of one kind. The base class is an ordinary kind with a spec:
override the differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.meta import names
from kcp_py.request.user import UserInfo

if TYPE_CHECKING:
    from kcp_py.apimachinery.managedfields.fieldsets import FieldSet

SETTABLE_METADATA: Final = frozenset({"annotations", "finalizers", "labels", "ownerReferences"})
"""The metadata of an object that clients change (apimachinery `metav1.ResetObjectMetaForStatus`)."""


class Strategy:
    """The rules of an ordinary kind. Methods get whole objects in the served version and may change `obj` in place, never `old`."""

    allow_create_on_update = False
    """Whether PUT to a missing name creates."""
    allow_unconditional_update = True
    """Whether PUT may leave resourceVersion out."""
    return_deleted_object = False
    """Whether DELETE answers with the object instead of a Status."""
    precondition_failed = ""
    """How a failed precondition of a delete begins, for kinds that have their own words for it."""
    default_propagation = ""
    """What becomes of dependents where neither a delete nor the object says so: `Orphan`, or empty for `Background`."""
    propagation_without_orphans = "Background"
    """The meaning of `false` for the old option `orphanDependents`."""
    has_dependents = True
    """Whether a delete can ask for something to be done with dependents at all (upstream's policy `Unsupported`)."""
    deletion_warning = ""
    """Sent where a delete leaves dependents to the kind."""
    is_marked_first = False
    """Whether the first delete only marks, with nothing but the time, whatever finalizers there are."""
    propagates_first = True
    """Whether that first delete does what it asks for with dependents."""
    resets_status = True
    """Whether a create drops the status, where it has a subresource."""
    has_generation = True
    """Whether metadata.generation is kept."""
    counts_annotations = False
    """Whether a change of annotations raises the generation."""
    counts_labels = False
    """Whether a change of labels raises it."""
    keeps_spec = False
    """Whether updates take the spec from the stored object, so that it has no owner."""
    status_resets: frozenset[str] = frozenset()
    """Metadata that an update through `/status` takes from the stored object. Of custom resources, this is all of it."""
    qualifies_finalizers = False
    """Whether finalizers have to name a domain, but for those of Kubernetes itself."""
    checks_malformed = False
    """Whether the validation takes objects with values of wrong types, or without required fields. Others are called for objects only that
    the schema accepts in this respect; the problems of the schema are the answer then."""
    error_group: str | None = None
    """The group of the kind in the messages about invalid objects, where it is another one than that of the request."""
    validate_name = staticmethod(names.dns_subdomain_problems)
    """Name rule: the problems of a name as upstream words them; empty when it is valid."""

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        """Reset fields that clients cannot set, fill fields that the form of the object requires."""

    def fill_new(self, obj: dict[str, Any], user: UserInfo) -> None:
        """Fill a new object, in place, with fields of the server, which get no owner. Called again where a generated name was taken.

        Args:
            obj: the object, after `prepare_for_create`.
            user: who creates it.
        """

    def follow_admission(self, obj: dict[str, Any]) -> None:
        """Work out again, in place, what follows from fields of a new object that admission plugins may have changed."""

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        """Prepare an update of the main resource; the generic store has handled metadata and, with `/status`, the status."""

    def prepare_for_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        """Prepare an update through `/status`; everything else that it cannot set was already taken from `old`."""

    def prepare_for_finalize(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        """Prepare an update through `/finalize`, which is the only way to change the finalizers of a specification."""

    def prepare_for_approval(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        """Prepare an update through `/approval`. Everything but metadata and status was already taken from `old`."""

    def resets_of(self, subresource: str) -> FieldSet | None:
        """The fields that an update through a subresource takes from the stored object; None for those of every kind."""
        del subresource
        return None

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """Problems that the schema cannot express, on create."""
        del obj
        return []

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """Problems that the schema cannot express, on update, including changes of immutable fields."""
        del old
        return self.validate(obj)

    def validate_subresource_update(self, obj: dict[str, Any], old: dict[str, Any], subresource: str) -> list[FieldError]:
        """Problems of an update of a typed object through a subresource."""
        del subresource
        return self.validate_update(obj, old)

    def validate_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """Problems of an update of a custom resource through `/status`, which changes the status alone."""
        del obj, old
        return []

    def is_heavy(self, obj: dict[str, Any]) -> bool:
        """Whether `validate`, `validate_update` and `warnings` take more than a few milliseconds, and should run in a thread."""
        del obj
        return False

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        """Texts for `Warning` headers after a successful validation."""
        del obj, old
        return []

    def check_delete(self, obj: dict[str, Any]) -> str:
        """Why the object may not be deleted (the detail of a 403), or the empty text."""
        del obj
        return ""

    def check_delete_of(self, name: str) -> str:
        """Why no object of a name may be deleted by this name (the detail of a 403), or the empty text. Collections are not asked."""
        del name
        return ""

    def postpone_delete(self, obj: dict[str, Any], grace: int | None) -> dict[str, Any] | None:
        """What a deletion makes of an object that it does not delete yet; None where it deletes it.

        Args:
            obj: as stored; not changed.
            grace: `gracePeriodSeconds` of the deletion; None where it has none.
        """
        del obj, grace
        return None

    def prepare_for_delete(self, obj: dict[str, Any]) -> bool:
        """Called once when an object is first deleted; may add finalizers or change status. Returns whether `obj` was changed."""
        del obj
        return False

    def has_pending_finalizers(self, obj: dict[str, Any]) -> bool:
        """Whether deletion has to wait. Namespaces also look at spec.finalizers."""
        return bool(obj["metadata"].get("finalizers"))
