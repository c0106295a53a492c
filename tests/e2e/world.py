"""A lake of a test's own whose stages run on the test run's one Ray."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import random
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from counting_captions import CountingCaptions, calls
from PIL import Image

from prx_assets.runtime import Job
from prx_resources import lance_table, mds_tree
from prx_resources.catalog import SourceManifest
from prx_resources.chunks import ChunkStore
from prx_resources.contract import ALL_SOURCES, JobResult, JobSpec, row_fingerprint
from prx_resources.jobs import JobState
from prx_resources.lake import Lake
from prx_resources.local_jobs import LocalJob
from prx_resources.ray_jobs import RayJobs
from prx_resources.settings import Settings

ENGINE = f"{CountingCaptions.__module__}:{CountingCaptions.__name__}"
SQUARE, WIDE = (400, 400), (500, 400)
BEFORE_EXPORT = ("raw_images", "captions", "perceptual_hashes", "caption_labels")
GLOBAL = ("duplicates", "skip_lists", "training_config")

Files = dict[str, tuple[bytes, int]]


def picture(seed: int, size: tuple[int, int] = SQUARE) -> bytes:
    """Returns a PNG of coloured squares: another seed, other pixels and another hash."""
    colours = Image.frombytes("RGB", (8, 8), random.Random(seed).randbytes(8 * 8 * 3))
    data = io.BytesIO()
    colours.resize(size, Image.Resampling.NEAREST).save(data, "PNG")
    return data.getvalue()


def digest(image: bytes) -> str:
    """Returns what the test engine's caption of an image says about its pixels."""
    with Image.open(io.BytesIO(image)) as opened:
        return hashlib.sha256(opened.convert("RGB").tobytes()).hexdigest()[:16]


def put(path: Path, images: Mapping[str, bytes]) -> None:
    """Writes a Parquet file of keys and image bytes, as another file if it was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(images), "image": list(images.values())}), path)


def files(folder: Path) -> Files:
    """Returns every file below a folder with its bytes and modification time."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def wait_for(what: Callable[[], object]) -> None:
    """Waits until something is so; the test's own limit ends it."""
    while not what():
        time.sleep(0.02)


class World:
    """A lake, what its settings and manifests say, and its stages.

    Args:
        ray_home: PRX_HOME whose keeper runs Ray; run folders go there too.
        settings: Name the lake.
        manifests: The sources.
    """

    def __init__(
        self, ray_home: Path, settings: Settings, manifests: Iterable[SourceManifest]
    ) -> None:
        self.ray_home = ray_home
        self.settings = settings
        self.manifests = {manifest.name: manifest for manifest in manifests}
        self.lake = Lake(settings.lake)
        self.source = next(iter(self.manifests))

    @classmethod
    def make(cls, root: Path, ray_home: Path, fragment_rows: int = 100) -> World:
        """Returns an empty world below `root` with one source, captioned by the test engine."""
        engine = root / "engine"
        engine.mkdir(parents=True)
        for name in ("source", "lake"):
            (root / name).mkdir()
        settings = Settings.model_validate(
            {
                "lake": str(root / "lake"),
                "captions": {"engine": ENGINE, "model": str(engine)},
                "labels": {"engine": "rules"},
                "chunk_rows": {"captions": 4, "caption_labels": 4, "perceptual_hashes": 4},
                "target_fragment_rows": fragment_rows,
                "training": {"batch_size": 1},
            }
        )
        manifest = SourceManifest.model_validate(
            {
                "name": "pets",
                "kind": "parquet",
                "uri": str(root / "source"),
                "columns": {"id": "id", "image": "image"},
            }
        )
        return cls(ray_home, settings, [manifest])

    def copy(self, root: Path) -> World:
        """Returns the same with a lake and a source of its own, and the same caption engine."""
        shutil.copytree(self.lake.root, root / "lake")
        shutil.copytree(self.folder, root / "source")
        settings = self.settings.model_copy(update={"lake": str(root / "lake")})
        manifest = self.manifests[self.source].model_copy(update={"uri": str(root / "source")})
        return World(self.ray_home, settings, [manifest])

    @property
    def folder(self) -> Path:
        """The source's files."""
        return Path(self.manifests[self.source].uri)

    @property
    def engine(self) -> Path:
        """The folder in which the test engine leaves its notes."""
        return Path(self.settings.captions.model)

    @property
    def uri(self) -> str:
        """The source's table."""
        return self.lake.images_uri(self.source)

    def spec(self, stage: str, source: str = "", **tuning: Any) -> JobSpec:
        """Returns the job that the stage's asset would launch."""
        build = importlib.import_module(f"prx_assets.{stage}.asset").__dict__.get("build_spec")
        source = ALL_SOURCES if stage in GLOBAL else source or self.source
        if stage in GLOBAL:
            spec = build(self.settings, list(self.manifests.values()))
        elif stage == "compacted_images":
            spec = importlib.import_module("prx_assets.compacted_images.spec").CompactedImagesSpec()
        else:
            manifest = self.manifests[source]
            given = (self.settings.for_source(manifest), manifest)
            spec = build(*given[: 2 if stage == "raw_images" else 1])
        made = JobSpec(stage, source, self.lake.root, spec.ingredients(), spec.params, tuning)
        return JobSpec.from_json(json.loads(json.dumps(made.to_json())))

    def run(self, *stages: str, source: str = "", **tuning: Any) -> JobResult:
        """Runs stages in this process, their work on Ray; returns the last one's result."""
        for stage in stages:
            folder = self.ray_home / "runs" / f"e2e-{uuid.uuid4().hex}"
            folder.mkdir(parents=True)
            job = Job(self.spec(stage, source, **tuning), folder, folder.name, home=self.ray_home)
            result = importlib.import_module(f"prx_assets.{stage}.job").work(job)
        return result

    def start(self, stage: str, **tuning: Any) -> LocalJob:
        """Starts a stage's job as a process of its own."""
        submission = RayJobs(home=str(self.ray_home)).submit_or_attach(
            self.spec(stage, **tuning), {}
        )
        assert not submission.attached
        assert isinstance(submission.job, LocalJob)
        return submission.job

    def chunks(self, stage: str) -> Files:
        """Returns the stage's finished chunks."""
        spec = self.spec(stage)
        return files(Path(self.lake.uri(self.lake.chunks_prefix(stage, spec.source, spec.row_fp))))

    def in_chunks(self) -> set[str]:
        """Returns the images whose captions wait in chunks."""
        spec = self.spec("captions")
        store = ChunkStore(self.lake, "captions", spec.source, spec.row_fp)
        return {key for _, table in store.tables() for key in table["image_id"].to_pylist()}

    @contextlib.contextmanager
    def slowed(self, seconds: float = 0.25) -> Iterator[None]:
        """Lets the test engine take its time over each image."""
        delay = self.engine / "delay_s"
        delay.write_text(str(seconds))
        try:
            yield
        finally:
            delay.unlink()

    def listen(self) -> Callable[[], list[str]]:
        """Returns a function that says which pictures the test engine was shown since now."""
        before = len(calls(self.engine))
        return lambda: sorted(calls(self.engine)[before:])

    def rows(self, *columns: str) -> dict[str, dict[str, Any]]:
        """Returns the published rows by image id, images as bytes; all columns by default."""
        scanner = lance_table.open_published(self.uri).scanner(
            columns=["image_id", *columns] if columns else None, blob_handling="all_binary"
        )
        return {row["image_id"]: row for row in scanner.to_table().to_pylist()}

    def wrongly_captioned(self) -> list[str]:
        """Returns the rows whose caption isn't about their own pixels; none is no caption."""
        return [
            key
            for key, row in self.rows("image", "caption").items()
            if digest(row["image"]) not in (row["caption"] or "")
        ]

    def export(self) -> Path:
        """Returns the folder of the source's export."""
        fp = row_fingerprint("mds_shards", self.spec("mds_shards").ingredients)
        return Path(self.lake.uri(self.lake.mds_prefix(self.source, fp)))

    def samples(self) -> dict[tuple[str, str], tuple[str, str, int]]:
        """Returns leaf, shard and index of each live sample, by image id and content."""
        return {
            (row["image_id"], row["content_sha256"]): (leaf.prefix, row["shard"], row["index"])
            for leaf in mds_tree.live_leaves(self.lake.store, self.source)
            for row in mds_tree.live_samples(self.lake.store, leaf).to_pylist()
        }

    def loaded(self) -> list[tuple[str, str]]:
        """Returns id and caption of every sample of an epoch, as a trainer's loader gives them."""
        from streaming import StreamingDataLoader

        from prx_resources.skip_dataset import SkipDataset, load_training_config, streams

        config = load_training_config(self.lake.uri(self.lake.training_config_pointer("default")))
        dataset = SkipDataset(streams=streams(config), shuffle=True, **config.dataset_arguments)
        loader = StreamingDataLoader(dataset, batch_size=config.batch_size, collate_fn=_columns)
        return [
            pair for batch in loader for pair in zip(batch["id"], batch["caption"], strict=True)
        ]


def _columns(samples: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [sample[name] for sample in samples] for name in samples[0]}


def finish(job: LocalJob) -> JobResult:
    """Waits for a job's end and returns its result."""
    wait_for(lambda: job.state() is not JobState.RUNNING)
    assert job.state() is JobState.SUCCEEDED, job.tail()
    outcome = job.outcome()
    assert outcome is not None
    assert outcome.result is not None
    return outcome.result


def runs(pid: int) -> bool:
    """Tells whether a process of this user is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
