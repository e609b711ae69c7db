"""Large answers in parts under credit: their sender, and the followers that apply them."""
