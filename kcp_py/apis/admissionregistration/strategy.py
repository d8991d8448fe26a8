"""The strategies of the kinds of the group (kubernetes `pkg/registry/admissionregistration`)."""

from __future__ import annotations

from typing import Any, ClassVar

from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.apis.admissionregistration.bindings import binding_problems, status_problems
from kcp_py.apis.admissionregistration.webhooks import webhook_problems, webhook_warnings
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.strategy import Strategy

_STATIC_SUFFIX = ".static.k8s.io"
"""Of names that upstream keeps for the manifests of its `--admission-control-config-file`."""


class _Registration(Strategy):
    allow_unconditional_update = False

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        problems = self.problems(obj, None)
        if text := _reserved(obj):
            problems.append(invalid("metadata.name", obj["metadata"]["name"], text))
        return problems

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        return self.problems(obj, old)

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        del old
        return [f"metadata.name: {text}"] if (text := _reserved(obj)) else []

    def problems(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        """The problems of the specification. `old`: the object before an update; None for a create."""
        del obj, old
        return []


def _reserved(obj: dict[str, Any]) -> str:
    if not str(obj["metadata"].get("name") or "").endswith(_STATIC_SUFFIX):
        return ""
    text = "are reserved for static manifest-based configurations and cannot be managed via the API"
    return f"names ending with {go_quote(_STATIC_SUFFIX)} {text}"


class _WebhookStrategy(_Registration):
    mutating: ClassVar[bool]

    def problems(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        return webhook_problems(obj, old, mutating=self.mutating)

    def is_heavy(self, obj: dict[str, Any]) -> bool:
        """Conditions are compiled."""
        return any(webhook.get("matchConditions") for webhook in obj.get("webhooks") or ())

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        return super().warnings(obj, old) + webhook_warnings(obj)


class MutatingWebhookStrategy(_WebhookStrategy):
    """Rules of a MutatingWebhookConfiguration."""

    mutating = True


class ValidatingWebhookStrategy(_WebhookStrategy):
    """Rules of a ValidatingWebhookConfiguration."""

    mutating = False


class _PolicyStrategy(_Registration):
    def is_heavy(self, obj: dict[str, Any]) -> bool:
        """Policies are validated in a thread: their expressions are compiled, and before the first one the compiler is imported."""
        del obj
        return True


class ValidatingPolicyStrategy(_PolicyStrategy):
    """Rules of a ValidatingAdmissionPolicy."""

    def problems(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        from kcp_py.apis.admissionregistration.policies import validating_policy_problems  # noqa: PLC0415 - CEL is large

        return validating_policy_problems(obj, old)

    def validate_subresource_update(self, obj: dict[str, Any], old: dict[str, Any], subresource: str) -> list[FieldError]:
        del old, subresource
        return status_problems(obj.get("status") or {})


class MutatingPolicyStrategy(_PolicyStrategy):
    """Rules of a MutatingAdmissionPolicy."""

    def problems(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        from kcp_py.apis.admissionregistration.mutations import mutating_policy_problems  # noqa: PLC0415 - CEL is large

        return mutating_policy_problems(obj, old)


class ValidatingPolicyBindingStrategy(_Registration):
    """Rules of a ValidatingAdmissionPolicyBinding."""

    def problems(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        del old
        return binding_problems(obj, mutating=False)


class MutatingPolicyBindingStrategy(_Registration):
    """Rules of a MutatingAdmissionPolicyBinding."""

    def problems(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        del old
        return binding_problems(obj, mutating=True)
