"""KiteDash: measure vLLM serving configurations and decide between them."""

__version__ = "0.1.0"
