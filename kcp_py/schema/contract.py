"""What the rest of the project asks of a compiled schema."""

from __future__ import annotations

from typing import Any, Protocol

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.schema.rules.tree import RuleNode
from kcp_py.schema.structural.default import MAX_FILLED
from kcp_py.schema.structural.nodes import Node
from kcp_py.schema.structural.settled import Settler


class CompiledSchema(Protocol):
    """One version's structural schema, ready to run on whole objects (dicts with apiVersion, kind and metadata). Immutable, shared."""

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Drop, in place, every field that the schema does not know.

        Returns:
            The dropped fields as upstream names them in `unknown field "spec.a[0].b"`, 100 at most.
        """
        ...

    def strict_errors(self, document: Any) -> list[str]:
        """The strict decoding errors of a typed kind's body: unknown and repeated fields, in the order of the document.

        Args:
            document: the body with its objects as `codec.Pairs`.
        """
        ...

    def type_error(self, obj: dict[str, Any]) -> FieldError | None:
        """The first value of the wrong type in an embedded resource. Upstream does not decode such an object."""
        ...

    def default(self, obj: dict[str, Any], limit: int = MAX_FILLED) -> None:
        """Drop nulls where null is not allowed, then fill defaults, in place.

        Args:
            obj: the object.
            limit: characters, about, that defaults may add.

        Raises:
            TooManyDefaultsError: they would add more. The object is filled in part; calling again continues.
        """
        ...

    def complete(self, obj: dict[str, Any]) -> None:
        """Add, in place, what the encoder of a typed kind writes although it is zero: the form that is stored, answered and merged."""
        ...

    def restore_defaults(self, obj: dict[str, Any]) -> None:
        """Fill, in place, what an object that `default` has filled lost since then: fields of the root, such as its status.

        Objects of typed kinds are completed.
        """
        ...

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        """Every violation, in upstream's order and wording, of all but CEL rules. `old` is the stored object on update."""
        ...

    def validate_status(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """The violations of an update through `/status`: the rules of properties.status, and the uniqueness of all lists."""
        ...

    @property
    def settler(self) -> Settler | None:
        """What finds out at once that `prune` and `default` leave an object as it is and `validate` accepts it; None where nothing does."""
        return None

    @property
    def pattern_weight(self) -> int:
        """What a character of an object may cost in `validate` because of patterns and enumerations, in steps."""
        return 0

    @property
    def has_embedded(self) -> bool:
        """Whether objects may hold other objects, whose metadata are decoded, too. Only then `prune` depends on the values of scalars."""
        return True

    @property
    def root(self) -> Node:
        """The schema as a tree."""
        ...

    @property
    def rules(self) -> RuleNode | None:
        """The CEL rules, for objects that are valid otherwise; None where there are none."""
        return None
