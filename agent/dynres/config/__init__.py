"""YAML text to frozen types; every fault with its place."""
