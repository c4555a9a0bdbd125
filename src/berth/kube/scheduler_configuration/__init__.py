"""The configuration file of a scheduler: KubeSchedulerConfiguration of ``kubescheduler.config.k8s.io/v1``.

It is read strictly.  Whatever kube-scheduler v1.37 would refuse is refused here, in its words where
people look for them; so are fields and plugins that Berth does not know.  What is accepted without
any effect ends up in `SchedulerConfiguration.notes`.
"""
