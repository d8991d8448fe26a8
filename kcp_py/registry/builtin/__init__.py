"""The kinds that the server serves without a CRD: their strategies, columns and conversions, put together as served resources.

Belongs here: what upstream's `pkg/apis/*/{v1/defaults,validation}` and `pkg/registry/*/strategy` say of these kinds. Does not belong
here: schemas (`kcp_py.bootstrap`), anything that is the same for every kind (`kcp_py.registry.store`), the rules of
CustomResourceDefinitions.
"""
