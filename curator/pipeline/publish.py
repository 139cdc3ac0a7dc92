"""A dataset folder as one that `datasets` loads, and onto the hub."""

from pathlib import Path

from curator import log
from curator.errors import UsageError
from curator.io.dataset import Dataset
from curator.io.export.card import licenses_of
from curator.io.export.hf import HubFolder, write_hf
from curator.io.hub import push as push_folder
from curator.io.hub import require_pushable
from curator.pipeline.pipes import as_folders


def publish(
    path: str, out: Path | None, overwrite: bool, push: str | None = None, any_license: bool = False
) -> HubFolder:
    """Write the folder `out` from a dataset folder or stream, then upload it to `push` (OWNER/NAME) if that is given.

    What would stop the upload is found before anything is written. Raises UsageError or CuratorError.
    """
    if out is None or str(out) == "-":
        raise UsageError("--to hf writes a folder", hint="--out FOLDER")
    with as_folders([path]) as folders:
        dataset = Dataset.open(*folders)
        if push is not None:
            require_pushable(push, licenses_of(dataset), any_license)
        outcome = write_hf(dataset, out, push.rpartition("/")[2] if push else None, overwrite)
    if push is not None:
        outcome.url = push_folder(out, push)
        log.info(f"pushed to {outcome.url}")
    return outcome
