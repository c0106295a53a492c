"""The lake: where every table, chunk, leaf, list and pointer of one platform lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prx_resources.object_store import LocalStore, ObjectStore


@dataclass(frozen=True)
class Lake:
    """Paths of one lake. Nothing else in the project spells a path inside it.

    Attributes:
        root: Absolute path of the lake on the local disk.
    """

    root: str

    @property
    def store(self) -> ObjectStore:
        """The object store whose keys are paths below the root."""
        return LocalStore(Path(self.root))

    def uri(self, key: str) -> str:
        """Returns the address of `key` as Lance, Streaming and pyarrow want it."""
        return f"{self.root.rstrip('/')}/{key}"

    def images_uri(self, source: str) -> str:
        """Returns the URI of a source's image table."""
        return self.uri(f"images/{source}.lance")

    @property
    def duplicates_uri(self) -> str:
        """URI of the table `image_id -> group, rank`."""
        return self.uri("duplicates.lance")

    @property
    def takedowns_uri(self) -> str:
        """URI of the global take-down table."""
        return self.uri("takedowns.lance")

    def catalog_key(self, source: str) -> str:
        """Returns the key of a source's manifest."""
        return f"catalog/{source}.yaml"

    def chunks_prefix(self, stage: str, source: str, row_fp: str) -> str:
        """Returns the prefix of one stage's unfinished work on one source."""
        return f"chunks/{stage}/{source}/{row_fp}"

    def ledger_prefix(self, source: str) -> str:
        """Returns the prefix of the notes on source files that yielded no row."""
        return f"ledger/{source}"

    def profile_key(self, source: str, data_version: str) -> str:
        """Returns the key of what is known of a source's rows at one data version."""
        return f"profiles/{source}/{data_version}.json"

    def mds_prefix(self, source: str, export_fp: str) -> str:
        """Returns the prefix of a source's export: `<level>/<ar>/` leaves lie below it."""
        return f"mds/{source}/{export_fp}"

    def skip_list_prefix(self, list_hash: str) -> str:
        """Returns the prefix of one content-addressed skip-list."""
        return f"skip_lists/{list_hash}"

    def skip_list_pointer(self, profile: str) -> str:
        """Returns the prefix of the numbered pointers to a profile's current skip-list."""
        return f"skip_lists/current/{profile}"

    @property
    def manual_skips_prefix(self) -> str:
        """Prefix of the text files with image ids, one a line, that people skip by hand."""
        return "skip_lists/manual"

    def training_config_prefix(self, config_hash: str) -> str:
        """Returns the prefix of one content-addressed training configuration."""
        return f"training_configs/{config_hash}"

    def training_config_pointer(self, profile: str) -> str:
        """Returns the prefix of the numbered pointers to a profile's current configuration."""
        return f"training_configs/current/{profile}"
