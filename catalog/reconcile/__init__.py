"""What is held, compared with the metastore, object by object."""
