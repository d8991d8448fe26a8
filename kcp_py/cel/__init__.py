"""The Common Expression Language in the dialect of Kubernetes: parse, type-check, estimate, compile, evaluate.

Belongs here: the language (cel-spec), those of cel-go's extension libraries that Kubernetes turns on, the libraries of Kubernetes, static
cost estimates and run-time cost limits. Does not belong here: schemas, CustomResourceDefinitions, admission, HTTP, storage. Each caller
(schema rules, admission policies, match conditions, authentication mappings) brings an `Environment` with its own variables. An expression
has access to nothing else.

The package can be used without the rest of kcp-py: it imports `golang`, and of `apimachinery` only quantities, formats and rules of names
(contract "CEL stands alone" of `.importlinter`). docs/cel.md shows how.

Entry points: `environment.Environment` (variables and libraries), `libraries.kubernetes.KUBERNETES` (the libraries of rules in CRDs),
`program.compile_expression` (text -> `Program`), `Program.evaluate`, `estimate.estimate` (static cost), `values.Budget` (run-time cost),
`errors` (the exceptions).

How an expression is processed: text -> `parser` (macros expanded) -> `checker` (a type and the possible overloads for each node) ->
`estimate` (static cost) -> `generator` (Python source, compiled once, at first use) -> a `Program` that is called with decoded JSON.
"""
