"""The custom-resource service of a batch cluster: an agent on each worker and one controller."""

__version__ = "0.1.0"
