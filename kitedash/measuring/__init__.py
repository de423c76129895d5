"""Adapters to the outside: the vLLM server, the load client, lm-eval, devices. They know nothing of the database."""
