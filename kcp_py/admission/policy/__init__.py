"""Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, whose rules are CEL expressions.

Belongs here: the environment of their expressions, compilation and evaluation, what each cluster has configured, and the two plugins. Does
not belong here: what makes the objects of these kinds valid (`apis.admissionregistration`), which requests a rule selects
(`admission.matching`), the language (`cel`).
"""
