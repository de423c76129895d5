"""The worker: durable workflow, slots, device locks and the server guard."""
