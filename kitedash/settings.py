"""Settings: environment variables `KITEDASH_*`, each documented in docs/operating.md (a test checks that)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PROJECT_ROOT = Path(__file__).resolve().parent.parent


class Settings(BaseSettings):
    """Read once a process by `settings()`; tests clear that cache or build their own."""

    model_config = SettingsConfigDict(env_prefix="KITEDASH_", frozen=True)

    data_dir: Path = Field(PROJECT_ROOT / "data", description="Database, models, checkpoints, logs and locks.")
    database_url: str = Field("", description="SQLAlchemy address; empty: SQLite file kitedash.db in data_dir.")
    price_book: Path = Field(PROJECT_ROOT / "experiments" / "prices.yaml", description="YAML file of device prices.")
    model_roots: list[Path] = Field(
        default_factory=list, description="Folders (JSON list) beside data_dir/models that model folders may lie in."
    )
    dashboard_host: str = Field("127.0.0.1", description="Address that the dashboard listens on.")
    dashboard_port: int = Field(8501, ge=1, le=65535, description="Port of the dashboard.")
    server_start_timeout_s: float = Field(900.0, gt=0, description="How long an engine may take to become ready.")
    engine_stop_grace_s: float = Field(2.0, gt=0, le=60, description="Time between terminate and kill of an engine.")
    poll_interval_s: float = Field(0.5, gt=0, le=60, description="How often a worker asks the queue for work.")
    cpu_kv_cache_gib: float = Field(2.0, gt=0, description="KV cache of vLLM's CPU build where a candidate names none.")

    @field_validator("data_dir", "price_book")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().resolve()

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir / 'kitedash.db'}"

    @property
    def models_dir(self) -> Path:
        return self.data_dir / "models"

    @property
    def checkpoints_dir(self) -> Path:
        return self.data_dir / "checkpoints"

    @property
    def logs_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def locks_dir(self) -> Path:
        return self.data_dir / "locks"


@lru_cache(maxsize=1)
def settings() -> Settings:
    return Settings()
