"""What every command works on: PRX_HOME, its settings, its lake, its Dagster instance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prx_resources.catalog import Catalog
from prx_resources.environment import export
from prx_resources.errors import RefusedError
from prx_resources.home import prepare_home
from prx_resources.lake import Lake
from prx_resources.settings import SETTINGS_FILE, Settings

if TYPE_CHECKING:
    from dagster import DagsterInstance, Definitions

    from prx_resources.ray_jobs import RayJobs


@dataclass(frozen=True)
class Workspace:
    """One platform on this machine.

    Attributes:
        home: PRX_HOME, absolute.
    """

    home: Path

    @cached_property
    def settings(self) -> Settings:
        """`settings.yaml`, or the defaults."""
        return Settings.load(self.home)

    @property
    def lake(self) -> Lake:
        """The lake that the settings name."""
        return self.settings.open_lake()

    @property
    def catalog(self) -> Catalog:
        """The lake's catalog."""
        return Catalog(self.lake)

    @property
    def dagster_home(self) -> Path:
        """DAGSTER_HOME below PRX_HOME."""
        return self.home / "dagster"

    def prepare(self) -> None:
        """Writes what Dagster needs and points this process (and its children) at PRX_HOME.

        Raises:
            RefusedError: The lake is another one than Dagster's history here tells of.
        """
        prepare_home(self.home)
        self._check_lake()
        export({"PRX_HOME": str(self.home), "DAGSTER_HOME": str(self.dagster_home)})

    def _check_lake(self) -> None:
        note = self.dagster_home / "lake.txt"
        home, lake = self.home.resolve(), Path(self.settings.lake)
        # Relative where it lies in PRX_HOME, which may be moved or copied as a whole.
        name = str(lake.relative_to(home) if lake.is_relative_to(home) else lake)
        if not note.exists():
            note.write_text(f"{name}\n", encoding="utf-8")
        known = note.read_text(encoding="utf-8").strip()
        if known != name:
            raise RefusedError(
                f"the settings name the lake {name}, and Dagster's history here is that of {known}",
                where=str(self.home / SETTINGS_FILE),
                fix=f"use another PRX_HOME for another lake; if you moved this one, remove {note}",
            )

    def ray_jobs(self) -> RayJobs:
        """Returns where jobs run."""
        from prx_assets.definitions import ray_jobs

        return ray_jobs(self.home, self.settings, stop_on_interrupt=True)

    def definitions(self) -> Definitions:
        """Returns the code location; Ctrl-C stops the job at hand."""
        from prx_assets.definitions import build

        return build(self.home, self.settings, stop_on_interrupt=True)

    @contextmanager
    def instance(self) -> Iterator[DagsterInstance]:
        """Opens the Dagster instance that the UI uses too."""
        from dagster import DagsterInstance

        self.prepare()
        with DagsterInstance.from_config(str(self.dagster_home)) as instance:
            yield instance
