"""The per-host agent, module by module in the order in which things happen."""
