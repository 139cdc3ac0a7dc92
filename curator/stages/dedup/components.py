"""Components of duplicates: which records ever belonged together, across every dedup step."""

from collections.abc import Sequence


class Components:
    """Union-find over labels. A label names a component that exists already, or a record that stands alone.

    Each label has a size, counted once; the name of a union is its smallest label, so that order does not matter.
    """

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._size: dict[str, int] = {}

    def add(self, label: str, size: int) -> None:
        """Make a label known with its size so far; a label that is known stays as it is."""
        if label not in self._parent:
            self._parent[label] = label
            self._size[label] = size

    def find(self, label: str) -> str:
        root = label
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[label] != root:
            self._parent[label], label = root, self._parent[label]
        return root

    def union(self, labels: Sequence[str]) -> None:
        roots = sorted({self.find(label) for label in labels})
        first = roots[0]
        for other in roots[1:]:
            self._parent[other] = first
            self._size[first] += self._size[other]

    def size(self, label: str) -> int:
        return self._size[self.find(label)]
