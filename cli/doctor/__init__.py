"""What usually goes wrong, checked in order: each check says what to do next."""
