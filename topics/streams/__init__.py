"""Large answers in parts under credit: who sends them, and the followers that apply them."""
