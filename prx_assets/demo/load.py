"""Reads the demo's export as a trainer would; knows Streaming and numpy, not the platform.

python -m prx_assets.demo.load PRX_HOME/lake/training_configs/current/default
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from torch.utils.data import DataLoader

from prx_resources.skip_dataset import SkipDataset, load_training_config, streams


def read_all(config_path: str) -> dict[str, Any]:
    """Iterates one epoch and counts what a training step would get.

    Args:
        config_path: A compiled configuration's folder, or the pointer to a profile's current one.

    Returns:
        Samples that the configuration has, samples and batches seen, batches per
        `width x height`, and the ids in the order seen.
    """
    config = load_training_config(config_path)
    dataset = SkipDataset(streams=streams(config), shuffle=True, **config.dataset_arguments)
    loader = DataLoader(dataset, batch_size=config.batch_size, collate_fn=list)
    shapes: Counter[str] = Counter()
    ids: list[str] = []
    for batch in loader:
        sizes = {sample["image"].size for sample in batch}
        if len(sizes) != 1 or any(sample["image"].mode != "RGB" for sample in batch):
            raise ValueError(f"a batch of {sizes} can't be stacked")
        width, height = sizes.pop()
        shapes[f"{width}x{height}"] += 1
        ids += [sample["id"] for sample in batch]
    return {
        "configured": config.samples,
        "samples": len(ids),
        "batches": shapes.total(),
        "shapes": dict(shapes),
        "ids": ids,
    }


if __name__ == "__main__":
    print(json.dumps(read_all(sys.argv[1])))
