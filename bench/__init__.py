"""Measurements of KiteDash itself. Each is one command; none is part of the product or of its tests."""
