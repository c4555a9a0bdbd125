"""Configurations of which a test shows the part that matters."""

import pytest

from berth.kube.scheduler_configuration.load import ConfigurationError, read
from berth.kube.scheduler_configuration.model import PluginArguments, Profile, SchedulerConfiguration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def configuration(fields: str = "") -> SchedulerConfiguration:
    return read(HEAD + fields, "scheduler.yaml")


def profile(fields: str) -> Profile:
    """The only profile, given as a flow mapping."""
    (found,) = configuration(f"profiles: [{fields}]").profiles
    return found


def plugins(fields: str) -> Profile:
    return profile(f"{{plugins: {fields}}}")


def args(plugin: str, fields: str) -> PluginArguments:
    return profile(f"{{pluginConfig: [{{name: {plugin}, args: {fields}}}]}}").args


def refusal(fields: str) -> str:
    """The sentence about what is wrong, without the file's name."""
    with pytest.raises(ConfigurationError) as caught:
        configuration(fields)
    file, _, sentence = str(caught.value).partition(": ")
    assert file == "scheduler.yaml"
    return sentence


def refused_args(plugin: str, fields: str) -> str:
    sentence = refusal(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {fields}}}]}}]")
    return sentence.removeprefix("profiles[0].pluginConfig[0].args.")
