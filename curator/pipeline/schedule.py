"""From steps to passes: neighbours that may share a read and a write do."""

from collections.abc import Sequence
from dataclasses import dataclass

from curator.stages.base import RowStage, Stage


@dataclass(frozen=True)
class Pass:
    """Stages that run in one pass, and the name of the folder it writes."""

    folder: str
    stages: tuple[Stage, ...]


def schedule(steps: Sequence[Stage]) -> list[Pass]:
    """Fuse consecutive row stages. A dataset stage stands alone; a step that scores and one that decides never fuse,
    so that a new threshold reads scores, not models."""
    groups: list[list[Stage]] = []
    for stage in steps:
        if groups and _fuse(groups[-1][-1], stage):
            groups[-1].append(stage)
        else:
            groups.append([stage])
    return [
        Pass(f"{index:02d}-{'+'.join(stage.name for stage in group)}", tuple(group))
        for index, group in enumerate(groups, start=1)
    ]


def _fuse(before: Stage, after: Stage) -> bool:
    return isinstance(before, RowStage) and isinstance(after, RowStage) and before.decides == after.decides
