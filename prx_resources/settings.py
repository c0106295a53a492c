"""`settings.yaml`: what identifies the values of a lake, and where and how work runs.

Identity (engines, models, prompts, thresholds, quality) lives here and in a manifest's
`overrides`, never in the launchpad, so that a value in a table can be traced to a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, field_validator

from prx_resources.errors import ManifestError
from prx_resources.lake import Lake
from prx_resources.strict_yaml import Refusal, StrictModel, did_you_mean, read, validate

SETTINGS_FILE = "settings.yaml"

CAPTION_ENGINES = {"measured": "cpu"}
LABEL_ENGINES = {"minilm": "cpu", "rules": "cpu"}
"""Built-in engines and the lane each runs in. Any other engine is `package.module:factory`, which
is taken to cost money."""

DEFAULT_PROMPT = (
    "Describe this image in one dense paragraph of 100 to 200 words. Say what is visible: objects,"
    " colours, composition, light, and any text in the picture, quoted as written. Do not"
    " interpret, guess or judge."
)

Positive = Annotated[int, Field(gt=0)]
PositiveRate = Annotated[float, Field(gt=0)]


def _check_engine(engine: str, built_in: dict[str, str]) -> str:
    module, colon, factory = engine.partition(":")
    plugged_in = colon and factory.isidentifier() and all(map(str.isidentifier, module.split(".")))
    if engine in built_in or plugged_in:
        return engine
    hint = did_you_mean(engine, built_in)
    raise Refusal(f"no engine {engine!r}", f"{hint} Or name your own as `package.module:factory`")


class CaptionSettings(StrictModel):
    """Who writes captions, and how.

    Attributes:
        engine: `measured` (built in, no model), or `package.module:factory`.
        model: Model's hub id or path, as the engine wants it; empty for `measured`.
        revision: Pinned revision of the model.
        prompt: The instruction a model gets.
        sampling: The engine's sampling parameters; part of the identity.
        max_pixels: Images are scaled down to this many pixels before the engine sees them.
        min_words: Fewer words only raise a warning.
        max_words: More words only raise a warning.
        python: Another environment's interpreter for the job, with the same Python, Ray and
            pylance; empty for this one. Not part of the identity.
    """

    engine: str = "measured"
    model: str = ""
    revision: str = ""
    prompt: str = DEFAULT_PROMPT
    sampling: dict[str, str | int | float | bool] = Field(default_factory=dict)
    max_pixels: Positive = 1_048_576
    min_words: Positive = 40
    max_words: Positive = 250
    python: str = ""

    @field_validator("engine")
    @classmethod
    def _engine(cls, engine: str) -> str:
        return _check_engine(engine, CAPTION_ENGINES)

    @property
    def lane(self) -> str:
        """`cpu` for built-in engines, else `paid`."""
        return CAPTION_ENGINES.get(self.engine, "paid")


class LabelSettings(StrictModel):
    """Who sorts captions into visual, text and nsfw.

    Attributes:
        engine: `minilm` (built in, needs the extra `local`), `rules` (for tests), or
            `package.module:factory`.
        model: Model's hub id or path, as the engine wants it; empty for the built-in ones.
        revision: Pinned revision of the model.
        python: Another environment's interpreter for the job, with the same Python, Ray and
            pylance; empty for this one. Not part of the identity.
    """

    engine: str = "minilm"
    model: str = ""
    revision: str = ""
    python: str = ""

    @field_validator("engine")
    @classmethod
    def _engine(cls, engine: str) -> str:
        return _check_engine(engine, LABEL_ENGINES)

    @property
    def lane(self) -> str:
        """`cpu` for built-in engines, else `paid`."""
        return LABEL_ENGINES.get(self.engine, "paid")


class HashSettings(StrictModel):
    """When two images count as the same.

    Attributes:
        flat_std: Grey standard deviation (0-255) under which an image is flat, never grouped.
        signature_tolerance: Largest difference of any signature byte between two copies.
    """

    flat_std: float = Field(default=4.0, ge=0)
    signature_tolerance: int = Field(default=12, ge=0, le=255)


class ExportSettings(StrictModel):
    """How samples are written.

    Attributes:
        quality: JPEG quality of the exported image.
        shard_bytes: Size at which a shard is closed; not part of the identity.
    """

    quality: int = Field(default=92, ge=1, le=100)
    shard_bytes: Positive = 67_108_864


SkipReason = Literal["text", "nsfw", "duplicate", "manual", "caption_gate"]
"""The reasons a profile may allow; takedown, superseded, vanished and undecided always skip."""


class SkipProfile(StrictModel):
    """One way to filter the export.

    Attributes:
        allow: Reasons that don't skip under this profile.
        blocking_gates: Caption quality gates whose failure skips a sample.
    """

    allow: tuple[SkipReason, ...] = ()
    blocking_gates: tuple[str, ...] = ("loop", "refusal", "cut_off", "prompt_copied", "markup")


class SkipSettings(StrictModel):
    """The profiles for which skip-lists and training configurations are compiled."""

    profiles: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,47}$")], SkipProfile] = (
        Field(default_factory=lambda: {"default": SkipProfile()}, min_length=1)
    )


class TrainingSettings(StrictModel):
    """What the loader configuration is compiled for.

    Attributes:
        batch_size: Samples of one device batch.
        canonical_nodes: Nodes whose sample order is kept when the real number differs.
    """

    batch_size: Positive = 8
    canonical_nodes: Positive = 1


class RaySettings(StrictModel):
    """Where jobs run.

    Attributes:
        backend: `local` (this machine's keeper) or `submission` (a cluster's job server).
        address: The job server's URL; only for `submission`.
        token_path: File with the cluster's token; only for `submission`.
    """

    backend: Literal["local", "submission"] = "local"
    address: str = ""
    token_path: str = ""


class CostSettings(StrictModel):
    """Rates for estimates, from the published PRX run.

    Attributes:
        gpu_hour_usd: Price of an H200-hour.
        captions_per_second: Images one GPU captions a second.
        labels_per_second: Captions one GPU labels a second.
    """

    gpu_hour_usd: PositiveRate = 1.95
    captions_per_second: PositiveRate = 20.0
    labels_per_second: PositiveRate = 200.0


class ChunkRows(StrictModel):
    """Row ids in one unit of finished work, by stage; fixed when a source's table is created."""

    perceptual_hashes: Positive = 4096
    captions: Positive = 1024
    caption_labels: Positive = 4096


class Manifest(Protocol):
    """What `Settings.for_source` needs of a source's manifest."""

    @property
    def name(self) -> str:
        """The source's name."""

    @property
    def overrides(self) -> dict[str, dict[str, Any]]:
        """Section -> key -> value."""


class Settings(StrictModel):
    """All settings; see the classes of the sections.

    Attributes:
        version: Version of the file's format.
        lake: Root of the lake; relative paths start at PRX_HOME.
        executor: `in_process` runs a run's steps one after the other in one process (fast on a
            laptop); `multiprocess` gives every step its own (deployments).
        target_fragment_rows: Upper bound of the rows in one fragment of a new table.
        max_pixels: Larger images are set aside as bombs, undecoded.
        max_cost_per_run: US dollars above which a captioning or labelling run is refused.
    """

    version: Literal[1] = 1
    lake: str = "lake"
    executor: Literal["in_process", "multiprocess"] = "in_process"
    ray: RaySettings = RaySettings()
    chunk_rows: ChunkRows = ChunkRows()
    target_fragment_rows: Positive = 1_000_000
    max_pixels: Positive = 300_000_000
    captions: CaptionSettings = CaptionSettings()
    labels: LabelSettings = LabelSettings()
    hashes: HashSettings = HashSettings()
    export: ExportSettings = ExportSettings()
    skip: SkipSettings = SkipSettings()
    training: TrainingSettings = TrainingSettings()
    costs: CostSettings = CostSettings()
    max_cost_per_run: PositiveRate | None = None

    @classmethod
    def load(cls, home: Path) -> Settings:
        """Returns `<home>/settings.yaml`, or the defaults; `lake` comes back absolute.

        Raises:
            ManifestError: The file isn't right; names the key.
        """
        path = home / SETTINGS_FILE
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        settings = read(cls, text, str(path))
        if "://" in settings.lake:
            raise ManifestError(
                f"`lake`: {settings.lake!r} isn't a local path",
                where=str(path),
                fix="give a folder; object stores aren't supported yet",
            )
        return settings.model_copy(update={"lake": str((home / settings.lake).resolve())})

    def open_lake(self) -> Lake:
        """Returns the lake."""
        return Lake(self.lake)

    def for_source(self, manifest: Manifest) -> Settings:
        """Returns the settings with a source's overrides applied.

        Raises:
            ManifestError: An override isn't allowed or doesn't fit.
        """
        where = f"manifest of {manifest.name}"
        sections = {
            section: validate(
                type(getattr(self, section)),
                {**getattr(self, section).model_dump(), **values},
                f"{where}, overrides.{section}",
            )
            for section, values in manifest.overrides.items()
        }
        return self.model_copy(update=sections)


OVERRIDABLE: dict[str, tuple[str, ...]] = {
    "captions": tuple(sorted(CaptionSettings.model_fields.keys() - {"engine", "python"})),
    "labels": tuple(sorted(LabelSettings.model_fields.keys() - {"engine", "python"})),
    "hashes": ("flat_std",),
    "export": ("quality",),
    "chunk_rows": tuple(ChunkRows.model_fields),
}
"""What a manifest may override: identity, but not the engine, whose lane belongs to the asset."""
