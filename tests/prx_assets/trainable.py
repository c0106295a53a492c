"""A small lake as the stages before `skip_lists` leave it, without pixels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from streaming import MDSWriter

from prx_assets.runtime import Job
from prx_assets.skip_lists import job as skip_lists_job
from prx_assets.skip_lists.gather import DUPLICATES_SCHEMA, ROWS_SCHEMA
from prx_assets.skip_lists.spec import SkipListsSpec
from prx_assets.training_config import job as training_config_job
from prx_assets.training_config.spec import TrainingConfigSpec
from prx_resources import mds_parts, mds_tree
from prx_resources.contract import JobResult, JobSpec, text_digest
from prx_resources.lake import Lake
from prx_resources.lease import lease

FP = "export0"
CAPTION = "A street."
DIGEST = text_digest(CAPTION)
_ROWS = pa.schema(
    [
        *(field for field in ROWS_SCHEMA if field.name != "caption_digest"),
        pa.field("caption", pa.string()),
        pa.field("set_aside", pa.string()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("pixels", pa.int64()),
    ]
)


def picture(name: str, **changes: Any) -> dict[str, Any]:
    """Returns a row that went through every stage, but for the changes."""
    return {
        "image_id": name,
        "content_sha256": f"sha of {name}",
        "caption": CAPTION,
        "label": "visual",
        "label_input": DIGEST,
        "phash": int(text_digest(name), 16),
        "signature": bytes(48),
        "phash_flat": False,
        "width": 512,
        "height": 512,
        "pixels": 512 * 512,
        **changes,
    }


class TinyLake:
    """Tables, leaves and jobs of one lake."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = Lake(str(root / "lake"))

    def put(self, *rows: dict[str, Any], groups: Sequence[Sequence[str]] = ()) -> None:
        """Writes all image tables anew, and the duplicates: each group's first member is best."""
        for source in {row["image_id"].split("/")[0] for row in rows}:
            own = [row for row in rows if row["image_id"].startswith(f"{source}/")]
            uri = self.lake.images_uri(source)
            ds = lance.write_dataset(pa.Table.from_pylist(own, _ROWS), uri, mode="overwrite")
            if "published" in ds.tags.list():
                ds.tags.update("published", ds.version)
            else:
                ds.tags.create("published", ds.version)
        places = {name: (group[0], rank) for group in groups for rank, name in enumerate(group)}
        covered = []
        for row in rows:
            if row["phash"] is not None:
                group, rank = places.get(row["image_id"], (None, 0))
                covered.append({**row, "group": group, "rank": rank})
        table = pa.Table.from_pylist(
            [{name: row[name] for name in DUPLICATES_SCHEMA.names} for row in covered],
            DUPLICATES_SCHEMA,
        )
        lance.write_dataset(table, self.lake.duplicates_uri, mode="overwrite")

    def export(self, names: Sequence[str], ar: str = "1.000", level: int = 512) -> None:
        """Adds one part to the leaf of the first image's source."""
        store, source = self.lake.store, names[0].split("/")[0]
        leaf = mds_tree.open_leaf(store, source, FP, level, ar)
        part = mds_parts.claim_part(store, leaf, f"{names}")
        written = self.root / f"written-{source}-{ar}-{part}"
        with MDSWriter(
            out=str(written), columns={"id": "str"}, hashes=["sha256"], size_limit=300
        ) as writer:
            for name in names:
                writer.write({"id": name})
        infos = json.loads((written / "index.json").read_text())["shards"]
        rows = []
        for info in infos:
            basename = info["raw_data"]["basename"]
            (written / basename).rename(Path(self.lake.root) / leaf.prefix / part / basename)
            rows += [(f"{part}/{basename}", number) for number in range(info["samples"])]
        samples = pa.Table.from_pylist(
            [
                {
                    "part": part,
                    "shard": shard,
                    "index": index,
                    "image_id": name,
                    "content_sha256": f"sha of {name}",
                    "caption_digest": DIGEST,
                }
                for name, (shard, index) in zip(names, rows, strict=True)
            ],
            mds_tree.SAMPLES_SCHEMA,
        )
        made = mds_parts.finish_part(store, leaf, part, infos, samples)
        with lease(store, mds_parts.leaf_lease_name(leaf), "test") as held:
            mds_parts.commit_parts(store, leaf, [*leaf.parts, made], held)

    def compile_lists(self, sources: Sequence[str] = ("a", "b"), **changes: Any) -> JobResult:
        """Runs the job of `skip_lists`."""
        spec = SkipListsSpec(exports=dict.fromkeys(sources, FP), **changes)
        return skip_lists_job.work(self._job("skip_lists", spec))

    def compile_config(self, **changes: Any) -> JobResult:
        """Runs the job of `training_config`."""
        spec = TrainingConfigSpec(**{"batch_size": 4, **changes})
        return training_config_job.work(self._job("training_config", spec))

    def config_path(self, profile: str = "default") -> str:
        """Returns what a trainer is given."""
        return self.lake.uri(self.lake.training_config_pointer(profile))

    def files(self) -> dict[str, bytes]:
        """Returns every list, configuration and pointer."""
        store = self.lake.store
        keys = [*store.list("skip_lists"), *store.list("training_configs")]
        return {key: store.get(key) for key in keys}

    def _job(self, stage: str, spec: SkipListsSpec | TrainingConfigSpec) -> Job:
        # As it arrives in a job: through JSON.
        params = json.loads(json.dumps(spec.params))
        told = JobSpec(stage, "all", self.lake.root, spec.ingredients(), params)
        return Job(told, self.root, "job-1")
