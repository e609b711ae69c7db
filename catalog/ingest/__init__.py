"""From the metastore into the model: polls, events, reads, reports."""
