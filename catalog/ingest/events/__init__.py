"""Events of the metastore: polls, the window of their ids, what they change, how they went."""
