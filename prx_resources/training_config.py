"""The compiled training configuration as a trainer reads it; standard library only.

A configuration is a folder named after its lock file: `lock.json` is the data set (skip-list and
every shard), `streaming.json` the streams for plain Streaming, `prx.json` the same for a trainer
that walks directories.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prx_resources.contract import fingerprint
from prx_resources.errors import RefusedError, TableError

LOCK_FILE = "lock.json"
STREAMING_FILE = "streaming.json"
PRX_FILE = "prx.json"
VERSION = 1


@dataclass(frozen=True)
class StreamConfig:
    """One stream: batches are made of one bucket's images only.

    Attributes:
        leaves: Paths below `mds/`; more than one where small leaves are pooled.
        level: Resolution level in pixels: 512, 1024, ...
        ratio: The bucket's width/height as its folder spells it.
        samples: Kept samples.
        repeat: How often each is drawn in an epoch, on average; the weight of its sources.
    """

    leaves: tuple[str, ...]
    level: int
    ratio: str
    samples: int
    repeat: float = 1.0


@dataclass(frozen=True)
class TrainingConfig:
    """What `load_training_config` returns.

    Attributes:
        lake: Root of the lake the configuration lies in.
        lock: Hash of the lock file: the identity of the data set.
        skip_list: The skip-list's folder.
        streams: The streams in order.
        batch_size: Samples per device batch that it was compiled for.
        canonical_nodes: Streaming's `num_canonical_nodes` that it was compiled for.
    """

    lake: Path
    lock: str
    skip_list: Path
    streams: tuple[StreamConfig, ...]
    batch_size: int
    canonical_nodes: int

    @property
    def samples(self) -> int:
        """Kept samples over all streams, each counted once."""
        return sum(stream.samples for stream in self.streams)

    @property
    def dataset_arguments(self) -> dict[str, Any]:
        """Arguments of the dataset that the compilation relied on."""
        return {
            "batch_size": self.batch_size,
            "num_canonical_nodes": self.canonical_nodes,
            "batching_method": "device_per_stream",
        }


def load_training_config(path: str | Path) -> TrainingConfig:
    """Reads a configuration's folder, or a folder of pointers (`current/<profile>`).

    Checkpoints belong to one configuration: note `config.lock` and resume with
    `training_configs/<lock>`, since `current/...` moves on.

    Raises:
        RefusedError: There is no configuration.
        TableError: Its content isn't what its name says.
    """
    folder = _follow(Path(path).resolve())
    try:
        lock = json.loads((folder / LOCK_FILE).read_bytes())
        data = json.loads((folder / STREAMING_FILE).read_bytes())
    except OSError as error:
        raise RefusedError(
            f"there is no training configuration here: {error.strerror}",
            where=str(path),
            fix="materialize training_config, or pass <lake>/training_configs/current/<profile>",
        ) from error
    if fingerprint(lock) != folder.name or data["lock"] != folder.name:
        raise TableError(
            "a training configuration isn't what its folder's name says",
            where=str(folder),
            fix="copy the folder again, or materialize training_config",
        )
    if data["version"] != VERSION:
        raise TableError(
            f"a training configuration of version {data['version']!r}",
            where=str(folder),
            fix="update prx-data",
        )
    lake = folder.parents[1]
    return TrainingConfig(
        lake=lake,
        lock=folder.name,
        skip_list=lake / data["skip_list"],
        streams=tuple(
            StreamConfig(
                leaves=tuple(stream["leaves"]),
                level=stream["level"],
                ratio=stream["ratio"],
                samples=stream["samples"],
                repeat=stream["repeat"],
            )
            for stream in data["streams"]
        ),
        batch_size=data["batch_size"],
        canonical_nodes=data["num_canonical_nodes"],
    )


def _follow(path: Path) -> Path:
    if path.name in (LOCK_FILE, STREAMING_FILE, PRX_FILE):
        return path.parent
    pointers = [file for file in path.glob("*.json") if file.stem.isdecimal()]
    if not pointers:
        return path
    newest = max(pointers, key=lambda file: int(file.stem))
    # training_configs/current/<profile>/000017.json -> training_configs/<hash>
    return path.parents[1] / str(json.loads(newest.read_bytes())["config"])
