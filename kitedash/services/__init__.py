"""Use cases. A service owns its transaction, and every write takes an Actor."""
