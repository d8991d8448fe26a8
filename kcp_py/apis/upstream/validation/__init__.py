"""Validation of upstream kinds that schemas cannot express, as pure functions from objects to problems.

Objects were decoded and defaulted before: values have their types, and fields that are not set are missing. Paths, texts and order are
those of kube-apiserver 1.37.
"""
