"""The Common Expression Language as Kubernetes speaks it: parse, type-check, estimate, compile, evaluate.

Belongs here: the language (cel-spec), cel-go's extension libraries as far as Kubernetes turns them on, the Kubernetes libraries, static
cost estimates and run-time cost limits. Does not belong here: schemas, CustomResourceDefinitions, admission, HTTP, storage. Whoever
evaluates expressions (schema rules, admission policies, match conditions, authentication mappings) brings an `Environment` of its own
variables; nothing else is visible to an expression.

What flows: text -> `parser` (macros expanded) -> `checker` (a type and the possible overloads for each node) -> `estimate` (static cost)
-> `generator` (Python source, compiled once, on first use) -> a `Program` that is called with plain decoded JSON.
"""
