"""Where changes come from: notifications of the metastore, and what is loaded because of them."""
