"""The kinds and rules of `meta.k8s.io`: object metadata, names, selectors, options of requests, tables, timestamps.

Belongs here: what k8s.io/apimachinery has in `pkg/apis/meta`, `pkg/labels`, `pkg/fields` and `pkg/util/validation`. Does not belong here:
how objects are written as bytes (`serializer`), field ownership (`managedfields`).
"""
