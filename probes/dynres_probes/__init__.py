"""The shipped probe plugins, found through the entry-point group `dynres.probes`."""
