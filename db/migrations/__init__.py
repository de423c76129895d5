"""Alembic migrations of KiteDash's own tables."""
