"""Every stage by its name in a recipe. Adding a stage is one line here; importing this imports none of them."""

import importlib
from collections.abc import Mapping
from typing import Any

from curator.errors import UsageError
from curator.schema.check import build, did_you_mean
from curator.stages.base import Stage

STAGES: dict[str, str] = {
    "tag.signals": "curator.stages.tag.signals:Signals",
    "tag.tokens": "curator.stages.tag.tokens:Tokens",
    "tag.metadata": "curator.stages.tag.metadata:Metadata",
    "classify.language": "curator.stages.classify.language:Language",
    "classify.domain": "curator.stages.classify.label:Domain",
    "classify.difficulty": "curator.stages.classify.label:Difficulty",
    "classify.apply": "curator.stages.classify.label:Apply",
    "dedup.exact": "curator.stages.dedup.exact:Exact",
    "dedup.near": "curator.stages.dedup.near:Near",
    "filter.where": "curator.stages.filter.where:Where",
    "sample": "curator.stages.sample:Sample",
    "concat": "curator.stages.concat:Concat",
}


def stage_class(name: str, where: str = "step") -> type[Stage]:
    """The class behind a recipe name. Raises UsageError with the closest name."""
    path = STAGES.get(name)
    if path is None:
        raise UsageError(f"{where}: unknown step {name!r}", hint=did_you_mean(name, STAGES))
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def build_stage(name: str, settings: Mapping[str, Any] | str | None, where: str = "step") -> Stage:
    """A stage from its settings; a bare text or list goes to the first setting (`filter.where: "..."`)."""
    cls = stage_class(name, where)
    if settings is None:
        settings = {}
    elif not isinstance(settings, Mapping):
        from curator.stages.base import setting_names

        names = setting_names(cls)
        if not names:
            raise UsageError(f"{where}: {name} has no settings", hint=f"write it as `- {name}`")
        settings = {names[0]: settings}
    return build(cls, settings, f"{where}.{name}")
