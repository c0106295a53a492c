"""`prx dev` on the demo's data, in a browser: what a person sees, and that Ctrl-C ends it all."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from counting_captions import CountingCaptions
from playwright.sync_api import Browser, Page, expect, sync_playwright

from prx_assets.captions.spec import STAGE, CaptionsSpec
from prx_resources import keeper
from prx_resources.contract import JobSpec
from prx_resources.jobs import JobState
from prx_resources.ray_jobs import RayJobs

from .conftest import Demo
from .world import runs, wait_for

CHROMIUM = "/usr/bin/chromium"
# The demo runs first, and the machine may be busy.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

SOURCES = ("snapshots", "archive", "crawl")
ASSETS = (
    *("source_files", "raw_images", "compacted_images", "source_profile", "search_index"),
    *("perceptual_hashes", "captions", "caption_labels", "mds_shards"),
    *("takedown_requests", "duplicates", "skip_lists", "training_config"),
)
GROUPS = ("ingest", "explore", "features", "export", "training")
PATIENCE_MS = 60_000


@dataclass(frozen=True)
class Dev:
    """A running `prx dev`.

    Attributes:
        home: Its PRX_HOME.
        process: The command.
        url: Where the UI answers.
    """

    home: Path
    process: subprocess.Popen[str]
    url: str

    def said(self, text: str) -> str:
        """Reads what the command prints up to the line with a text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return line
        raise AssertionError(f"prx dev ended without saying {text!r}")


@pytest.fixture(scope="module")
def dev(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    # A copy, because `prx dev` ends its PRX_HOME's Ray, which other tests use too.
    home = tmp_path_factory.mktemp("ui") / "home"
    for folder in ("dagster", "lake"):
        shutil.copytree(demo.home / folder, home / folder)
    shutil.copy(demo.home / "settings.yaml", home)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("prx")), "dev", "--port", str(port)],
        env={**os.environ, "PRX_HOME": str(home)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        made = Dev(home, process, f"http://127.0.0.1:{port}")
        try:
            assert made.url in made.said("Dagster UI: ")
            yield made
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options += ["--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def page(dev: Dev, browser: Browser) -> Iterator[Page]:
    page = browser.new_page(base_url=dev.url, viewport={"width": 1600, "height": 1400})
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield page
    page.close()


def test_the_graph_shows_every_asset(page: Page) -> None:
    page.goto("/asset-groups?expanded=" + ",".join(f"global@global:{group}" for group in GROUPS))
    for asset in ASSETS:
        expect(page.get_by_text(asset, exact=True).first).to_be_visible()


def test_every_partition_is_materialized_and_every_check_but_a_warning_passed(page: Page) -> None:
    page.goto("/assets/raw_images?view=partitions")
    expect(page.get_by_text("Materialized (3)")).to_be_visible()
    for source in SOURCES:
        expect(page.get_by_text(source, exact=True).first).to_be_visible()
    page.goto("/assets/raw_images?view=checks&checkDetail=rows_set_aside")
    expect(page.get_by_text("Succeeded", exact=True)).to_have_count(3)
    # The demo plants a broken picture.
    expect(page.get_by_text("Set aside: 1 decode.")).to_be_visible()


def test_a_plot_is_drawn(page: Page) -> None:
    page.goto(f"/assets/source_profile?view=partitions&partition={SOURCES[0]}")
    row = page.locator("tr", has_text="plot_sizes_and_shapes")
    row.get_by_text("[Show Markdown]").click()
    plot = page.get_by_role("img", name="Resolution against aspect ratio")
    expect(plot).to_be_visible()
    assert plot.evaluate("image => image.naturalWidth") > 400


def test_the_free_lane_is_on_and_the_paid_one_off(page: Page) -> None:
    for lane, on in (("cpu_stages", True), ("paid_stages", False)):
        page.goto(f"/locations/prx_assets.definitions/sensors/{lane}")
        expect(page.get_by_text(re.compile("Requests the stages"))).to_be_visible()
        expect(page.get_by_role("checkbox").first).to_be_checked(checked=on)
    expect(page.get_by_text("Spends nothing now")).to_be_visible()


def test_ctrl_c_ends_the_job_ray_and_every_process(
    dev: Dev, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))
    (tmp_path / "delay_s").write_text("600")
    engine = f"{CountingCaptions.__module__}:{CountingCaptions.__name__}"
    spec = CaptionsSpec(engine=engine, model=str(tmp_path))
    job = (
        RayJobs(home=str(dev.home))
        .submit_or_attach(
            JobSpec(
                STAGE,
                SOURCES[0],
                str(dev.home / "lake"),
                spec.ingredients(),
                spec.params,
                redo=True,
            ),
            {},
        )
        .job
    )
    wait_for((tmp_path / "workers").exists)
    ray = keeper.running(dev.home)
    assert ray is not None
    started = _children(dev.process.pid)
    assert len(started) > 2

    dev.process.send_signal(signal.SIGINT)
    assert "jobs stopped: 1" in dev.said("have ended")
    assert dev.process.wait() == 0
    assert job.state() is not JobState.RUNNING
    assert not ray.process.alive
    workers = [int(pid) for pid in (tmp_path / "workers").read_text().split()]
    wait_for(lambda: not any(map(runs, [*started, *workers])))


def _children(pid: int) -> list[int]:
    """Returns a process's descendants."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *_children(int(child))]
    return found
