"""`MutatingAdmissionPolicy`: changes new objects as policies of their cluster say.

Source: k8s.io/apiserver `pkg/admission/plugin/policy/mutating` (`dispatcher.go`, `reinvocationcontext.go`) and
`pkg/admission/plugin/policy/generic/policy_dispatcher.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcp_py.admission.policy.compiled import CompiledPolicies
from kcp_py.admission.policy.definitions import Binding, Definition
from kcp_py.admission.policy.engine import PolicyEngine, Write
from kcp_py.admission.policy.evaluation import OUT_OF_BUDGET
from kcp_py.admission.reinvocation import Rounds
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.golang.quoting import go_quote
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.registry.resource import ServedResource

if TYPE_CHECKING:
    from kcp_py.admission.policy.evaluation import Allowance
    from kcp_py.admission.policy.mutating import MutatingPolicy, Mutation


class _Failure(NamedTuple):
    definition: Definition
    binding: Binding | None
    message: str
    reason: str = ""
    """Empty for mistakes of the configuration."""

    def __str__(self) -> str:
        name = self.definition.name
        names = f"{go_quote(name)}" if self.binding is None else f"'{name}' with binding '{self.binding.name}'"
        return f"policy {names} denied request: {self.message}"


class _Invocation(NamedTuple):
    """A policy with a binding and a parameter, and the resource in whose form it sees the object."""

    definition: Definition
    binding: Binding
    param: dict[str, Any] | None
    resource: ServedResource

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Equal for the invocations of both rounds."""
        metadata = {} if self.param is None else self.param["metadata"]
        return self.definition.name, self.binding.name, metadata.get("namespace", ""), metadata.get("name", "")


def _compile(spec: Mapping[str, Any]) -> MutatingPolicy:
    # Most servers have no policies, and CEL is large. This runs in a thread.
    from kcp_py.admission.policy.mutating import MutatingPolicy  # noqa: PLC0415

    return MutatingPolicy(spec)


class MutatingAdmissionPolicy(AdmissionPlugin):
    """Applies the MutatingAdmissionPolicies of the cluster of a write, in the order of their names.

    Where a policy or a webhook changed the object, all mutating plugins see it once more, and policies whose `reinvocationPolicy` is
    `IfNeeded` are applied again.
    """

    name = "MutatingAdmissionPolicy"
    operations: Collection[Operation] = ("CREATE", "UPDATE", "CONNECT")

    def __init__(self, engine: PolicyEngine) -> None:
        self._engine = engine
        self._compiled: CompiledPolicies[MutatingPolicy] = CompiledPolicies(_compile)
        self.checks: dict[tuple[str], int] = {}
        """Error type -> how many mutations; upstream's label."""

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether the cluster has no policies for a resource, or the resource is exempt."""
        return self._engine.has_none(cluster, resource)

    def follow(self, changed: Callable[[], None]) -> bool:
        """Announce what clusters configure."""
        self._engine.follow(changed)
        return True

    async def mutate(self, attributes: Attributes) -> None:
        """Apply the policies of the cluster.

        Raises:
            StatusError: 403 where a policy cannot be applied, 500 where the result is not an object of its kind.
        """
        hooks = await self._engine.hooks(attributes)
        if not hooks or attributes.obj is None:
            return
        write = self._engine.begin(attributes)
        failures: list[_Failure] = []
        invocations: list[_Invocation] = []
        for hook in hooks:
            for bound in await write.bound(hook):
                if bound.error or bound.binding is None:
                    what = "policy" if bound.binding is None else "binding"
                    failures.append(_Failure(hook.definition, bound.binding, f"failed to configure {what}: {bound.error}"))
                    continue
                invocations += [_Invocation(hook.definition, bound.binding, param, bound.resource) for param in bound.params]
        rounds = Rounds.of(attributes, self.name)
        has_changed = False
        for invocation in invocations:
            has_changed = await self._invoke(invocation, write, rounds, failures) or has_changed
        if has_changed:
            # Those that were applied after the last change are due as well.
            rounds.changed()
            attributes.reinvocation.needed = True
        rounds.end(attributes)
        if failures := [failure for failure in failures if not failure.definition.ignores_failures]:
            raise _refusal(attributes, failures)

    async def _invoke(self, invocation: _Invocation, write: Write, rounds: Rounds, failures: list[_Failure]) -> bool:
        """Apply one policy, if it is due. Returns whether it changed the object."""
        definition = invocation.definition
        policy = await self._compiled.get(definition)
        from kcp_py.admission.policy.mutating import MutationError  # noqa: PLC0415 - imported by then

        values = {**await write.values(invocation.resource, definition), "params": invocation.param}
        matches, problem = await write.evaluated(lambda allowance: policy.match(values, allowance))
        if problem:
            failures.append(_Failure(definition, invocation.binding, problem, "Invalid"))
        # The conditions of a policy that is not due are evaluated nevertheless, and may refuse the write.
        if not matches or (write.attributes.reinvocation.again and not rounds.is_due(invocation.identity)):
            return False
        changed = False
        for mutation in policy.mutations:
            try:
                changed = await self._mutate(policy, mutation, invocation, write) or changed
                self._count("no_error")
            except MutationError as error:
                self._count("out_of_budget" if OUT_OF_BUDGET in str(error) else "invalid_error")
                failures.append(_Failure(definition, invocation.binding, str(error), "Invalid"))
        if changed:
            rounds.changed()
        if definition.reinvoked:
            rounds.applied(invocation.identity)
        return changed

    def _count(self, kind: str) -> None:
        self.checks[(kind,)] = self.checks.get((kind,), 0) + 1

    async def _mutate(self, policy: MutatingPolicy, mutation: Mutation, invocation: _Invocation, write: Write) -> bool:
        """Apply one mutation to the object of a write. Returns whether it changed the object.

        Raises:
            MutationError: the mutation has no value, or one that does not fit the object.
            StatusError: the result is not an object of its kind.
        """
        from kcp_py.admission.policy.mutating import merged, patched  # noqa: PLC0415 - imported by then

        resource = invocation.resource
        values = {**await write.values(resource, invocation.definition), "params": invocation.param}

        def evaluate(allowance: Allowance | None) -> Any:
            return policy.evaluate(mutation, values, allowance)

        value = await write.evaluated(evaluate)
        before = values["object"]
        if mutation.is_json_patch:
            after = patched(before, value)
        else:
            kind = None if resource.merge_types is None else await resource.merge_types.load(resource.group_version)
            if kind is None:
                raise errors.service_unavailable(f"Resource kind {resource.group_version}, Kind={resource.kind} not found.")
            after = merged(before, value, kind)
        if after is before or after == before:
            return False
        await write.replace(after, resource, self.name)
        return True


def _refusal(attributes: Attributes, failures: Sequence[_Failure]) -> StatusError:
    """The answer for policies that could not be applied. As upstream, the code is 403 whatever the reason."""
    first = failures[0]
    refusal = errors.forbidden(attributes.resource.group_resource, attributes.name, "")
    refusal.message = str(first)
    refusal.reason = first.reason or refusal.reason
    refusal.details = {**(refusal.details or {}), "causes": [{"message": str(failure)} for failure in failures]}
    return refusal
