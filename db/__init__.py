"""Storage: SQLAlchemy models, the engine, repositories (all SQL lives here) and Alembic migrations."""
