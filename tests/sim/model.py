"""The protocol's model, checked before anything was built: each rule of it, and its faults here.

The model found a violation without each of these rules; so do the simulator's seeds, or scenarios.
One of them is had in another way: what is followed at minimal is shut while it catches up, so its
tables need no touch.
"""

MODEL = {
    "memory answers only at or above what a pull answered": (
        "memory answers only at or above the version of a pull",
        "memory answers only at or above what was shown",
    ),
    "a chunk's upto is no position": ("what a chunk has reached is no position",),
    "upto is a complete version": ("a version larger than a chunk is resumed by its key",),
    "parts of different topic versions are never combined": (
        "parts of two versions are not combined",
        "what is held is named with its version",
    ),
    "a pull's reply carries the namespace version": (
        "names answer only at or above the namespace version of a pull",
        "a pull below what the names have shown is stale",
    ),
    "starts are recorded and compared": (
        "a start is compared before anything of it is accepted",
        "a new epoch waits until catalogd has caught up",
    ),
    "a hub files its own catch-up and does not forward it": (
        "a hub does not forward its own catch-up",
    ),
    "invalidate-all marker of a topic": (
        "an invalidate-all marker is a stub for pulls on their way",
        "an invalidate-all marker is a stub for what was pulled",
    ),
    "touched tables at minimal too": ("memory does not answer while it catches up, at minimal",),
    "lower bound kept at a drop": ("what was shown of a topic stays a lower bound after its drop",),
    "a raise ends at or above the old level's position": (
        "a raise ends at or above the position of the old level",
    ),
    "LOADING is unloaded after a start": (
        "what is LOADING at a start is loaded again",
        "what is LOADING at a start is loaded again where it is pulled",
    ),
    "load fence in the reader": (
        "a pull from before a stub is stale",
        "a stub is noted for pulls on their way",
    ),
    "floor": (
        "who is below the floor takes a snapshot",
        "who resumes a snapshot from below the floor takes another",
    ),
    "incarnation": (
        "content answers only under its own incarnation",
        "a drop ends an incarnation",
    ),
    "no memory while catching up": ("memory does not answer while it catches up",),
    "a position per (topic, level)": ("each level has a position of its own",),
    "none never from memory": ("a topic at none is not answered from memory",),
}
