"""`ValidatingAdmissionPolicy`: refuses writes that policies of their cluster deny, or warns about violations.

Source: k8s.io/apiserver `pkg/admission/plugin/policy/validating/dispatcher.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kcp_py.admission.policy.compiled import CompiledPolicies
from kcp_py.admission.policy.definitions import Binding, Definition, Hook
from kcp_py.admission.policy.engine import PolicyEngine, Write
from kcp_py.admission.policy.evaluation import OUT_OF_BUDGET, Allowance
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.golang.json import go_json
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import OPERATIONS, AdmissionPlugin, Attributes, Operation

if TYPE_CHECKING:
    from kcp_py.admission.policy.validating import ValidatingPolicy, Verdict

_INVALID: Final = "Invalid"
_CODES: Final[Mapping[str, int]] = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, _INVALID: 422}
_FAILURES_KEY: Final = "validation.policy.admission.k8s.io/validation_failure"
_MOST_FAILURES: Final = 50
_LONGEST_ANNOTATION: Final = 10 * 1024


Checks = dict[tuple[str, str], int]
"""Error type and action -> how many decisions. Upstream's labels; names of policies are chosen by tenants, and left out."""


class _Denial(NamedTuple):
    definition: Definition
    binding: Binding | None
    message: str
    reason: str = ""


class _Outcome:
    """What the policies have said about a write up to now."""

    def __init__(self, checks: Checks) -> None:
        self.denials: list[_Denial] = []
        self.failures: list[dict[str, Any]] = []
        self._checks = checks

    def misconfigured(self, definition: Definition, binding: Binding | None, error: str) -> None:
        """A policy or a binding cannot be used."""
        if not definition.ignores_failures:
            what = "policy" if binding is None else "binding"
            self.denials.append(_Denial(definition, binding, f"failed to configure {what}: {error}"))

    def add(self, hook: Hook, binding: Binding, verdict: Verdict, *, warnings: list[str], annotations: dict[str, list[str]]) -> None:
        """What a policy with one of its bindings says."""
        definition = hook.definition
        for decision in verdict.decisions:
            if decision.allowed:
                if decision.message:
                    self._count(decision.message, "allow")
                continue
            for action in binding.actions:
                self._count(decision.message, action.lower())
                match action:
                    case "Deny":
                        self.denials.append(_Denial(definition, binding, decision.message, decision.reason))
                    case "Warn":
                        names = f"'{definition.name}' with binding '{binding.name}'"
                        warnings.append(f"Validation failed for ValidatingAdmissionPolicy {names}: {decision.message}")
                    case "Audit":
                        self.failures.append(
                            {
                                "message": decision.message,
                                "policy": binding.policy,
                                "binding": binding.name,
                                "expressionIndex": decision.place,
                                "validationActions": list(binding.actions),
                            }
                        )
        for annotation in verdict.annotations:
            if annotation.failed:
                self.denials.append(_Denial(definition, binding, annotation.value))
                self._count(annotation.value, "deny")
                continue
            value = annotation.value.encode()[:_LONGEST_ANNOTATION].decode(errors="ignore")
            values = annotations.setdefault(annotation.key, [])
            if value not in values:
                values.append(value)

    def _count(self, message: str, action: str) -> None:
        # As upstream, a validation that is false is an error, too.
        compiles = not message.startswith("compilation")
        kind = ("out_of_budget" if message.startswith(OUT_OF_BUDGET) else "invalid_error") if compiles else "compile_error"
        self._checks[kind, action] = self._checks.get((kind, action), 0) + 1


def _compile(spec: Mapping[str, Any]) -> ValidatingPolicy:
    # Most servers have no policies, and CEL is large. This runs in a thread.
    from kcp_py.admission.policy.validating import ValidatingPolicy  # noqa: PLC0415

    return ValidatingPolicy(spec)


class ValidatingAdmissionPolicy(AdmissionPlugin):
    """Evaluates the ValidatingAdmissionPolicies of the cluster of a write."""

    name = "ValidatingAdmissionPolicy"
    operations: Collection[Operation] = (*OPERATIONS, "CONNECT")

    def __init__(self, engine: PolicyEngine) -> None:
        self._engine = engine
        self._compiled: CompiledPolicies[ValidatingPolicy] = CompiledPolicies(_compile)
        self.checks: Checks = {}
        """How many decisions denied, warned, audited, or allowed in spite of an error."""

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether the cluster has no policies, or the resource is exempt."""
        return self._engine.has_none(cluster, resource)

    def follow(self, changed: Callable[[], None]) -> bool:
        """Announce what clusters configure."""
        self._engine.follow(changed)
        return True

    async def validate(self, attributes: Attributes) -> None:
        """Ask the policies of the cluster.

        Raises:
            StatusError: 422 or the code of the reason that a validation gives; the store cannot be read.
        """
        hooks = self._engine.hooks_at_once(attributes)
        if hooks is None:
            hooks = await self._engine.hooks(attributes)
        if not hooks:
            return
        write = self._engine.begin(attributes)
        outcome = _Outcome(self.checks)
        for hook in hooks:
            if not self._judge_at_once(hook, write, outcome):
                await self._judge(hook, write, outcome)
        if outcome.failures:
            attributes.audit_annotations[_FAILURES_KEY] = go_json(outcome.failures[:_MOST_FAILURES])
        if outcome.denials:
            raise _refusal(attributes, outcome.denials[0])

    def _judge_at_once(self, hook: Hook, write: Write, outcome: _Outcome) -> bool:
        """Ask a policy, where nothing has to be read for it and it takes no thread. Returns whether it was asked.

        This takes a fraction of the time of `_judge`, and serves most policies.
        """
        bounds = write.bound_at_once(hook)
        if not bounds:
            return bounds is not None
        definition = hook.definition
        policy, values = self._compiled.known(definition), write.values_at_once(bounds[0].resource, definition)
        if policy is None or values is None:
            return False
        # A policy without parameters says the same with each of its bindings.
        verdict = write.evaluated_at_once(lambda allowance: policy.validate(values, allowance=allowance))
        if verdict is None:
            return False
        if verdict.decisions or verdict.annotations:
            annotations: dict[str, list[str]] = {}
            for bound in bounds:
                assert bound.binding is not None
                outcome.add(hook, bound.binding, verdict, warnings=write.attributes.warnings, annotations=annotations)
            _annotate(write.attributes, definition, annotations)
        return True

    async def _judge(self, hook: Hook, write: Write, outcome: _Outcome) -> None:
        definition, attributes = hook.definition, write.attributes
        annotations: dict[str, list[str]] = {}
        for bound in await write.bound(hook):
            if bound.error:
                outcome.misconfigured(definition, bound.binding, bound.error)
                continue
            assert bound.binding is not None
            values = await write.values(bound.resource, definition) if bound.params else {}
            for verdict in await self._verdicts(definition, write, values, bound.params):
                outcome.add(hook, bound.binding, verdict, warnings=attributes.warnings, annotations=annotations)
        _annotate(attributes, definition, annotations)

    async def _verdicts(
        self, definition: Definition, write: Write, values: Mapping[str, Any], params: Sequence[dict[str, Any] | None]
    ) -> Sequence[Verdict]:
        """What a policy says with each parameter."""
        if not params:
            return ()
        policy = await self._compiled.get(definition)
        verdicts = []
        for one in params:
            given = {**values, "params": one}

            def evaluate(allowance: Allowance | None, given: Mapping[str, Any] = given) -> Verdict:
                return policy.validate(given, allowance=allowance)

            verdicts.append(await write.evaluated(evaluate))
        return verdicts


def _annotate(attributes: Attributes, definition: Definition, annotations: Mapping[str, Sequence[str]]) -> None:
    """Keep the audit annotations of a policy: key -> values."""
    for key, found in annotations.items():
        attributes.audit_annotations[f"{definition.name}/{key}"] = ", ".join(found)


def _refusal(attributes: Attributes, denial: _Denial) -> StatusError:
    """The answer for the first denial."""
    names = f"'{denial.definition.name}'"
    if denial.binding is not None:
        names += f" with binding '{denial.binding.name}'"
    message = f"ValidatingAdmissionPolicy {names} denied request: {denial.message}"
    refusal = errors.forbidden(attributes.resource.group_resource, attributes.name, message)
    refusal.reason = denial.reason or _INVALID
    refusal.code = _CODES.get(refusal.reason, 422)
    refusal.details = {**(refusal.details or {}), "causes": [{"message": message}]}
    return refusal
