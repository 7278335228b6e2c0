"""What agents, controller and clients say to each other, and how it travels."""
