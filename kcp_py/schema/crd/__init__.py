"""The rules for CustomResourceDefinitions (k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation`).

Belongs here: what a CRD may contain, its conditions, names, versions and conversion. Does not belong here: custom resources
(`schema.structural`), storage and serving (`registry`).
"""
