"""Records back to the forms that other tools read."""

from curator.io.export import alpaca, messages, preference, sharegpt, source
from curator.io.export.base import Target

TARGETS: dict[str, Target] = {
    module.TARGET.name: module.TARGET for module in (alpaca, sharegpt, messages, preference, source)
}
"""By name, in the order in which help shows them."""
