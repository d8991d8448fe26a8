"""`PodSecurity`: the Pod Security Standards, by the labels of namespaces.

Belongs here: levels and versions, the checks of pods, and the plugin. The checks are imported for the first pod that a level other than
`privileged` is about.
"""
