"""Sound: frames, the log-mel spectrogram, convolutions without padding or in groups, the group norm."""

from __future__ import annotations

import pytest
import torch

from tests.invariants.harness import built
from tests.references.whisper import log_mel
from tests.words.helpers import make, random_weights
from transformula.errors import InputError, TransformulaError
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.words import vocabulary

NOISE = torch.randn(2, 1700, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([1700, 1130])
REAL = torch.arange(1700) < LENGTHS[:, None]


def test_the_spectrogram_is_that_of_whisper() -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.WhisperFeatureExtractor()(
        [*NOISE.float().numpy()], sampling_rate=16000, padding="longest", return_tensors="pt"
    )
    ours, _ = make("logmel", {"audio": 1})
    torch.testing.assert_close(ours(NOISE.float()), theirs.input_features.mT, atol=1e-6, rtol=0)
    torch.testing.assert_close(ours.double()(NOISE), log_mel(NOISE, 80), atol=1e-12, rtol=0)


def test_a_row_has_its_own_end_and_its_own_loudest_value() -> None:
    ours = make("logmel", {"audio": 1})[0].double()
    padded = NOISE.masked_fill(~REAL, 50.0)
    together = ours(padded, real=REAL)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = ours(NOISE[row : row + 1, :length])
        torch.testing.assert_close(together[row : row + 1, : length // 160], alone, atol=1e-12, rtol=0)


def test_frames_are_cut_by_size_and_hop() -> None:
    audio = torch.arange(11.0)[None]
    assert make("frames", {"audio": 1})[0](audio).tolist() == audio[..., None].tolist()
    assert make("frames", {"audio": 1}, size=4, hop=3)[0](audio).tolist() == [
        [[s + k for k in range(4)] for s in (0, 3, 6)]
    ]


@pytest.mark.parametrize(
    ("audio", "wrong"),
    [
        (torch.zeros(1, 2, 900), "waveform .batch, samples."),
        (torch.zeros(1, 900, dtype=torch.int16), "divide 16-bit samples by 32768"),
        (torch.zeros(1, 200), "at least 201 samples; this waveform has 200"),
    ],
)
def test_what_is_no_waveform_is_refused(audio: torch.Tensor, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        make("logmel", {"audio": 1})[0](audio)


def test_no_frequency_lies_above_half_of_the_samples() -> None:
    text = "causal: false\nbefore: x = linear(logmel(audio, rate=8000, highest=8000), width)\nlayer: x = x + mlp(x)"
    with pytest.raises(TransformulaError, match="no frequency above half of it"):
        check(read_text(text), vocabulary())


@pytest.mark.parametrize("groups, stride", [(1, 1), (1, 3), (4, 2)])
def test_a_convolution_without_padding_is_that_of_pytorch(groups: int, stride: int) -> None:
    options = {"length": 5, "size": 12, "stride": stride, "groups": groups, "padding": "valid"}
    for causal in (True, False):
        ours = random_weights(make("conv", {"x": 8}, causal=causal, **options)[0])
        x = torch.randn(2, 16, 8)
        theirs = torch.nn.functional.conv1d(x.mT, ours.weight, ours.bias, stride, groups=groups)
        torch.testing.assert_close(ours(x), theirs.mT)
    with pytest.raises(InputError, match="at least as many positions; this sequence has 4"):
        ours(x[:, :4])


def test_an_even_kernel_looks_further_ahead_or_further_back() -> None:
    x = torch.randn(2, 9, 8)
    for padding, cut in (("same", slice(1, None)), ("same_lower", slice(None, -1))):
        ours = random_weights(make("conv", {"x": 8}, causal=False, length=4, padding=padding)[0])
        theirs = torch.nn.functional.conv1d(x.mT, ours.weight, ours.bias, padding=2)
        torch.testing.assert_close(ours(x), theirs.mT[:, cut])
    with pytest.raises(InputError, match="in a causal stack conv looks back only"):
        make("conv", {"x": 8}, length=4, padding="same_lower")


@pytest.mark.parametrize("groups", [1, 4, 8])
def test_the_group_norm_is_that_of_pytorch_and_sees_no_padding(groups: int) -> None:
    ours = random_weights(make("groupnorm", {"x": 8}, groups=groups)[0])
    theirs = torch.nn.GroupNorm(groups, 8)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 6, 8)
    torch.testing.assert_close(ours(x), theirs(x.mT).mT)
    real = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    padded = ours(x.masked_fill(~real[..., None], 9), real=real)
    torch.testing.assert_close(padded[0], ours(x)[0])
    torch.testing.assert_close(padded[1:, :4], ours(x[1:, :4]))


@pytest.mark.parametrize("text", ["wav2vec2-conformer", "whisper"])
def test_a_padded_row_of_sound_is_as_alone(text: str) -> None:
    """In sound models lengths are those of samples; positions that are made of real samples alone are real."""
    model = built(text, deep=False)
    tokens = {"tokens": torch.arange(10).view(2, 5)} if text == "whisper" else {}
    padded = NOISE.masked_fill(~REAL, 3.0)
    with torch.no_grad():
        lengths = {"audio": LENGTHS, **{name: torch.full((2,), 5) for name in tokens}}
        together = model(audio=padded, **tokens, lengths=lengths)
        for row, length in enumerate(LENGTHS.tolist()):
            own = {name: ids[row : row + 1] for name, ids in tokens.items()}
            alone = model(audio=NOISE[row : row + 1, :length], **own)
            torch.testing.assert_close(together[row : row + 1, : alone.shape[1]], alone, atol=1e-9, rtol=0)
