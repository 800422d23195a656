"""What a model of transformers and ours are called with, and which of their results are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.interop.named.tiny import FRAMES, MELS
from tests.peers.case import VOCAB
from tests.references.whisper import log_mel
from transformula.interop.parity import calls
from transformula.interop.parity.calls import drawn, products

LENGTHS: Mapping[str, Tensor] = {name: torch.tensor(lengths) for name, lengths in calls.LENGTHS.items()}
LENGTH, SOURCE_LENGTH = (int(LENGTHS[name][0]) for name in ("tokens", "source"))
"""How many positions of each row are no padding."""
SHORT = 16
"""How many frames of a spectrogram a sound among tokens has."""
MARKER = VOCAB - 1
"""The id in whose places another sequence stands; no other token has it."""


def ids(length: int, seed: int) -> Tensor:
    """Random token ids (2, length), none of which is a special one of the tiny models: 0, 1, 2, and the last."""
    return torch.randint(3, VOCAB - 1, (2, length), generator=torch.Generator().manual_seed(seed))


INPUTS: Mapping[str, Callable[[], Tensor]] = {
    "tokens": lambda: ids(LENGTH, 2),
    "source": lambda: ids(SOURCE_LENGTH, 5),
    "types": lambda: (torch.arange(LENGTH) > 5).long().expand(2, -1),
    "image": lambda: drawn(2, 3, 32, 32),
    "steps": lambda: ids(LENGTH, 3) % 7,
    "observations": lambda: drawn(2, LENGTH, 5),
    "actions": lambda: drawn(2, LENGTH, 3),
    "returns": lambda: drawn(2, LENGTH, 1),
    "audio": lambda: drawn(2, 160 * FRAMES) / 4,
    "series": lambda: drawn(2, FRAMES, 6),
}
"""Each input of ours."""


class Call(calls.ParityCall):
    """A call of the tiny models."""

    def inputs(self, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        tensors = {name: INPUTS[name]() for name in self.names}
        inputs: dict[str, Any] = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
        padded = [name for name in self.masks if name in LENGTHS]
        if padded:
            inputs["lengths"] = {name: LENGTHS[name] for name in padded}
        self.prepare(inputs)
        return inputs


class Pooled(Call, calls.Pooled):
    """Theirs is the mean of the last layer's real positions."""


@dataclass(frozen=True)
class Shorter(Call):
    """Of two rows of sound the second is shorter, and what padding gives is not compared.

    real  how long they are
    left  how many positions at least the model makes of the shorter one; 0: what is compared has one position
    """

    real: tuple[int, int] = (640, 400)
    left: int = 0

    def inputs(self, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        inputs, (name,) = super().inputs(dtype), self.names
        inputs[name] = inputs[name][:, : self.real[0]].clone()
        inputs[name][1, self.real[1] :] = 0
        return {**inputs, "lengths": {name: torch.tensor(self.real)}}

    def heard(self, logits: Tensor) -> Tensor:
        return torch.cat((logits[0], logits[1, : self.left])) if self.left else logits

    def theirs(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        return self.heard(super().theirs(model, inputs))

    def ours(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        return self.heard(super().ours(model, inputs))


class Decisions(Call):
    """Each gives actions, states and returns, of which those of real steps are compared; what rewards were is not read
    by theirs."""

    def inputs(self, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        return {**super().inputs(dtype), "lengths": {"steps": LENGTHS["tokens"]}}

    def theirs(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        given = {self.names[name]: inputs[name] for name in self.names}
        mask = calls.real(inputs["lengths"]["steps"], LENGTH)
        made = model(**given, attention_mask=mask.long())
        return torch.cat((made.action_preds, made.state_preds, made.return_preds), -1)[mask]

    def ours(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        made = model(**inputs)
        every = torch.cat([made[name] for name in ("action", "state", "return_to_go")], -1)
        return every[calls.real(inputs["lengths"]["steps"], LENGTH)]


class Distances(Call):
    """Theirs is one number a pixel, (batch, rows, columns)."""

    def taken(self, results: Any, inputs: Mapping[str, Any]) -> Tensor:
        return calls.by_positions(results.predicted_depth[:, None])


def narrow(inputs: dict[str, Any]) -> None:
    """A picture that is higher than it is wide."""
    inputs["image"] = inputs["image"][..., :24]


def end_tokens(inputs: dict[str, Any]) -> None:
    """CLIP reads the text at the last token's place, which holds the largest id."""
    tokens = inputs["tokens"].clone()
    inputs["lengths"] = {"tokens": LENGTHS["tokens"]}
    tokens[torch.arange(2), LENGTHS["tokens"] - 1] = VOCAB - 1
    inputs["tokens"] = tokens


def ended(inputs: dict[str, Any]) -> None:
    """Each text ends with the id 2, at which BART's state is read, and has it at another place, too."""
    tokens = inputs["tokens"].clone()
    tokens[torch.arange(2), LENGTHS["tokens"] - 1] = 2
    tokens[:, 3] = 2
    inputs["tokens"] = tokens


def marked(inputs: dict[str, Any]) -> None:
    """The places of a picture, or of a sound, among the tokens, all within the prompt: not the same in both rows."""
    inputs["tokens"][[0, 0, 0, 0, 1, 1, 1, 1], [1, 2, 3, 4, 0, 1, 3, 4]] = MARKER


def marked_sound(inputs: dict[str, Any]) -> None:
    """The same, and a sound of so few frames that two of them stand at a place."""
    inputs["audio"] = inputs["audio"][:, : 160 * SHORT]
    marked(inputs)


def sounds(**options: Any) -> Call:
    """A sound among the tokens."""
    return Call(
        {"audio": "input_features", "tokens": "input_ids"},
        {"tokens": "attention_mask"},
        {"use_cache": False, **options},
        prepare=marked_sound,
        decodes=True,
        written=MARKER,
        layout={"audio": lambda t: log_mel(t.double(), MELS).mT.to(t.dtype)},
    )


def some_masked(inputs: dict[str, Any]) -> None:
    """Every fourth token that is no padding is the mask, id 5: theirs counts those of the padding, too."""
    tokens = inputs["tokens"].clone()
    tokens[0, ::4] = tokens[1, : LENGTHS["tokens"][1] : 4] = 5
    inputs["tokens"] = tokens


def mel_features(audio: Tensor) -> Tensor:
    """The log-mel spectrogram that Whisper is given."""
    return log_mel(audio.double(), MELS).mT.to(audio.dtype)


def one_channel(inputs: dict[str, Any]) -> None:
    inputs["series"] = inputs["series"][..., :1]


CALLS: Mapping[str, Call] = {
    "tokens": Call({"tokens": "input_ids"}, {"tokens": "attention_mask"}, {"use_cache": False}, decodes=True),
    "encoder": Call({"tokens": "input_ids"}, {"tokens": "attention_mask"}),
    "masked": Call({"tokens": "input_ids"}, {"tokens": "attention_mask"}, prepare=some_masked),
    "types": Call({"tokens": "input_ids", "types": "token_type_ids"}, {"tokens": "attention_mask"}),
    "languages": Call({"tokens": "input_ids", "types": "langs"}, {"tokens": "attention_mask"}),
    "replaced": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda replaced: replaced[..., 0],
    ),
    "classes": Call({"tokens": "input_ids"}, {"tokens": "attention_mask"}, result=lambda logits: logits[:, 0]),
    "classes of the end": Call(
        {"tokens": "input_ids"}, {"tokens": "attention_mask"}, prepare=ended, result=lambda logits: logits[:, 0]
    ),
    "classes of types": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda logits: logits[:, 0],
    ),
    "spans": Call(
        {"tokens": "input_ids"},
        {"tokens": "attention_mask"},
        result=lambda logits: logits[..., 0],
        output="start_logits",
    ),
    "spans of types": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda logits: logits[..., 1],
        output="end_logits",
    ),
    "vectors": Pooled(
        {"tokens": "input_ids"},
        {"tokens": "attention_mask"},
        result=lambda sentence: sentence[:, 0],
        output="last_hidden_state",
    ),
    "vectors of types": Pooled(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda sentence: sentence[:, 0],
        output="last_hidden_state",
    ),
    "first of types": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda sentence: sentence[:, 0],
        output="pooler_output",
    ),
    "spans of a question": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        prepare=some_masked,
        result=lambda logits: logits[..., 1],
        output="end_logits",
    ),
    "whole": Call({"tokens": "input_ids"}),
    "whole of types": Call({"tokens": "input_ids", "types": "token_type_ids"}),
    "classes of the whole": Call(
        {"tokens": "input_ids", "types": "token_type_ids"}, result=lambda logits: logits[:, 0]
    ),
    "spans of the whole": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        result=lambda logits: logits[..., 0],
        output="start_logits",
    ),
    "source": Call(
        {"source": "input_ids", "tokens": "decoder_input_ids"},
        {"source": "attention_mask"},
        {"use_cache": False},
        decodes=True,
    ),
    "image": Call({"image": "pixel_values"}, result=lambda logits: logits[:, 0]),
    "audio": Call(
        {"audio": "input_features", "tokens": "decoder_input_ids"},
        options={"use_cache": False},
        decodes=True,
        layout={"audio": mel_features},
    ),
    "features": Call(
        {"series": "input_features", "tokens": "decoder_input_ids"}, options={"use_cache": False}, decodes=True
    ),
    "forecast": Call(
        {"series": "past_values"}, prepare=one_channel, result=lambda forecast: forecast.mT, output="prediction_outputs"
    ),
    "classes of series": Call(
        {"series": "past_values"}, prepare=one_channel, result=lambda y: y[:, 0], output="prediction_logits"
    ),
    "numbers of series": Call(
        {"series": "past_values"}, prepare=one_channel, result=lambda y: y[:, 0], output="regression_outputs"
    ),
    "states of tokens": Call(
        {"tokens": "input_ids"}, {"tokens": "attention_mask"}, {"use_cache": False}, output="last_hidden_state"
    ),
    "states of an encoder": Call({"tokens": "input_ids"}, {"tokens": "attention_mask"}, output="last_hidden_state"),
    "states of an image": Call({"image": "pixel_values"}, output="last_hidden_state"),
    "states of sound": Shorter(
        {"audio": "input_values"}, {"audio": "attention_mask"}, output="last_hidden_state", left=1
    ),
    "spectrum": Call({"audio": "input_features"}, result=lambda logits: logits[:, 0], layout={"audio": mel_features}),
    "spoken": Call(
        {"audio": "input_values", "tokens": "decoder_input_ids"}, options={"use_cache": False}, decodes=True
    ),
    "waveform": Call({"audio": "input_values"}),
    "waveform in a batch": Shorter({"audio": "input_values"}, {"audio": "attention_mask"}, left=9),
    "frames in a batch": Shorter({"series": "input_features"}, {"series": "attention_mask"}, real=(FRAMES, 17), left=1),
    "sound": Call({"audio": "input_values"}, result=lambda logits: logits[:, 0]),
    "sounds in a batch": Shorter(
        {"audio": "input_values"}, {"audio": "attention_mask"}, result=lambda logits: logits[:, 0]
    ),
    "clip": Call(
        {"image": "pixel_values", "tokens": "input_ids"},
        prepare=end_tokens,
        result=products,
        output="logits_per_image",
    ),
    "pictures": Call(
        {"image": "pixel_values", "tokens": "input_ids"},
        {"tokens": "attention_mask"},
        {"use_cache": False},
        prepare=marked,
        decodes=True,
        written=MARKER,
    ),
    "several pictures": Call(
        {"image": "pixel_values", "tokens": "input_ids"},
        {"tokens": "attention_mask"},
        {"use_cache": False},
        prepare=marked,
        decodes=True,
        written=MARKER,
        layout={"image": lambda t: t[:, None]},
    ),
    "sounds": sounds(),
    "sounds of a length": sounds(feature_attention_mask=torch.ones(2, SHORT)),
    "sounds of frames": sounds(input_features_mask=torch.ones(2, SHORT)),
    "patches of an image": Call({"image": "pixel_values"}),
    "pixels of an image": Call({"image": "pixel_values"}, output="reconstruction"),
    "heat of an image": Call({"image": "pixel_values"}, prepare=narrow, output="heatmaps"),
    "distances of an image": Distances({"image": "pixel_values"}),
    "decisions": Decisions(
        {"steps": "timesteps", "observations": "states", "actions": "actions", "returns": "returns_to_go"}
    ),
    "images by texts": Call(
        {"image": "pixel_values", "tokens": "input_ids"}, result=products, output="logits_per_image"
    ),
}
