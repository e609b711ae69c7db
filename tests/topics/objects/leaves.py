"""The blocks of one table in memory, for tests of edits."""

from bisect import bisect_right


class MemoryLeaves:
    """Blocks by lower bound; counts what an edit reads."""

    def __init__(self):
        self.blocks = {}
        self.reads = 0

    def floor(self, name):
        bounds = sorted(self.blocks)
        at = bisect_right(bounds, name)
        return bounds[at - 1] if at else None

    def after(self, lower):
        bounds = sorted(self.blocks)
        at = bisect_right(bounds, lower)
        return bounds[at] if at < len(bounds) else None

    def read(self, lower):
        self.reads += 1
        return self.blocks[lower]

    def apply(self, blocks, version):
        for lower, value in blocks:
            if value is None:
                del self.blocks[lower]
            else:
                self.blocks[lower] = (version, value)
