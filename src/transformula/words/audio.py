"""Sound as a sequence: `frames` of a waveform, and its log-mel spectrogram, `logmel`."""

import math
from functools import cache

import torch
from torch import Tensor

from ..errors import InputError
from .cpu import tracing, without_autocast
from .word import TypedWord, number, whole, word

LINEAR_UP_TO, LINEAR_STEP = 1000.0, 200 / 3  # of Slaney's mel scale: hertz, and hertz a mel below
LOG_STEP = 27 / math.log(6.4)  # mels a factor of e above


@word(
    "frames",
    streams=("audio",),
    numbers=("size",),
    kind="input",
    width="size",
    sequence="own",
    real="strided",
    strided=("size - 1", "hop"),
    padding=True,
    options={
        "size": whole("samples of a frame", 1, minimum=1),
        "hop": whole("samples from the start of one frame to that of the next", "size", minimum=1),
    },
    initial_scale="unknown",
    example="causal: false\nbefore: x = gelu(conv.one(frames(audio), 10, width, stride=5, padding='valid'))",
    equation="y_i = the samples i hop, ..., i hop + size - 1",
    source="as in the feature encoder of wav2vec 2.0, 2006.11477",
)
class Frames(TypedWord):
    """y_i = the samples i hop, i hop + 1, ..., i hop + size - 1 of a waveform: with size 1 the waveform itself.

    audio (batch, samples), floating-point, one channel, to y (batch, floor((samples - size) / hop) + 1, size), a
    sequence of its own. A frame is real if all its samples are; padding is 0. No parameters.

    Raises InputError for what is not such a waveform, and for one shorter than a frame.
    """

    def __init__(self, size: int, hop: int, audio: int) -> None:
        super().__init__()
        self.size, self.hop = size, hop

    def forward(self, audio: Tensor, *, real: Tensor | None = None) -> Tensor:
        check_waveform(audio, self.size, f"frames(audio, {self.size})")
        audio = audio.to(self.like.dtype)
        if real is not None:
            audio = audio.masked_fill(~real, 0)
        return audio.unfold(1, self.size, self.hop)


@word(
    "logmel",
    like="frames",
    strided=("hop - 1", "hop"),
    options={
        "size": whole("number of mel filters", 80, minimum=1),
        "frame": whole("samples of a frame, and of its Fourier transform", 400, minimum=2),
        "hop": whole("samples from the middle of one frame to that of the next", 160, minimum=1),
        "rate": whole("samples a second", 16000, minimum=1),
        "highest": number("the highest frequency of the filters, in hertz", "rate / 2", minimum=1),
        "dynamic": number("powers of ten below the loudest value at which values are cut off", 8, minimum=0),
    },
    checks={"highest <= rate / 2": "at {rate} samples a second there is no frequency above half of it: {highest}"},
    flops="2 * (frame // 2 + 1) * size",
    example="causal: false\n"
    "before: x = gelu(conv.two(gelu(conv.one(logmel(audio), 3, width)), 3, stride=2)); x = x + sinusoids(x)",
    equation="y_i = (max(m_i, max of all m - dynamic) + 4) / 4, m_i = log10 of the power in `size` bands around sample "
    "i hop",
    source="Whisper, 2212.04356; the mel scale: Slaney 1998",
)
class LogMel(TypedWord):
    """y_i = (max(m_i, M - dynamic) + 4) / 4, with m_i the logarithms (base 10) of the power in each of `size` bands of
    frequency around sample i hop, at least 1e-10, and M the largest of all m: the log-mel spectrogram of Whisper.

        power    |Fourier transform of `frame` samples times Hann's window|^2, at frequencies 0, rate / frame, ...
        bands    triangles, equally wide on Slaney's mel scale, from 0 to `highest` hertz; each has the area 1

    audio (batch, samples), floating-point, one channel, from -1 to 1, to y (batch, floor(samples / hop), size), a
    sequence of its own; at both ends the waveform is mirrored. Each row has its own M and its own end: y_i is real if
    the hop samples from i hop on are. Computed in float32 at least. No parameters. Whisper itself pads every waveform
    with zeros to 30 seconds first, and takes that as real.

    Raises InputError for what is not such a waveform, and for one that is not longer than half a frame.
    """

    def __init__(self, size: int, frame: int, hop: int, rate: int, highest: float, dynamic: float, audio: int) -> None:
        super().__init__()
        self.size, self.frame, self.hop, self.rate = size, frame, hop, rate
        self.highest, self.dynamic = highest, dynamic

    def forward(self, audio: Tensor, *, real: Tensor | None = None) -> Tensor:
        half = self.frame // 2
        check_waveform(audio, max(half + 1, self.hop), "logmel(audio)")
        precise = torch.promote_types(self.like.dtype, torch.float32)
        samples, device = audio.shape[1], audio.device
        last = samples - 1 if real is None else real.sum(1, keepdim=True) - 1
        places = torch.arange(-half, samples + half, device=device).abs()[None]
        places = torch.where(places > last, 2 * last - places, places).clamp(0, samples - 1)
        mirrored = audio.to(precise).gather(1, places.expand(audio.shape[0], -1))
        # the frame that stands beyond the last sample is left out
        frames = mirrored.unfold(1, self.frame, self.hop)[:, : samples // self.hop]
        window = torch.hann_window(self.frame, dtype=precise, device=device)
        power = torch.fft.rfft(frames * window).abs().square()
        make = mel_filters.__wrapped__ if tracing() else mel_filters  # a traced tensor must not outlive its graph
        filters = make(self.size, self.frame, self.rate, self.highest).to(device, precise)
        # rounded to float16, quiet bands would be 0
        with without_autocast(device.type):
            m = (power @ filters).clamp(min=1e-10).log10()
        known = m
        if real is not None:
            known = m.masked_fill(~real[:, self.hop - 1 :: self.hop][..., None], float("-inf"))
        m = torch.maximum(m, known.amax((1, 2), keepdim=True) - self.dynamic)
        return ((m + 4) / 4).to(self.like.dtype)


def check_waveform(audio: Tensor, shortest: int, called: str) -> None:
    """Raise InputError unless `audio` is a waveform (batch, samples) of at least `shortest` samples."""
    if audio.dim() != 2:
        raise InputError(
            f"{called} needs a waveform (batch, samples); this has the shape {tuple(audio.shape)}: take the mean of "
            "several channels, and write audio[None] for a batch of one"
        )
    if not audio.is_floating_point():
        raise InputError(
            f"a waveform is of floating-point numbers, this one of {audio.dtype}: divide 16-bit samples by 32768 first"
        )
    if audio.shape[1] < shortest:
        raise InputError(
            f"{called} needs at least {shortest} samples; this waveform has {audio.shape[1]}: pad it with zeros"
        )


def hertz(mels: Tensor) -> Tensor:
    """Frequencies of numbers on Slaney's mel scale: linear up to 1,000 Hz, logarithmic above."""
    linear, steps = mels * LINEAR_STEP, mels - LINEAR_UP_TO / LINEAR_STEP
    return torch.where(linear < LINEAR_UP_TO, linear, LINEAR_UP_TO * (steps / LOG_STEP).exp())


@cache
def mel_filters(size: int, frame: int, rate: int, highest: float) -> Tensor:
    """(frame // 2 + 1, size), float64: triangles over the frequencies of a Fourier transform, each of area 1."""
    factor = max(highest / LINEAR_UP_TO, 1.0)
    mels = min(highest, LINEAR_UP_TO) / LINEAR_STEP + math.log(factor) * LOG_STEP
    edges = hertz(torch.linspace(0, 1, size + 2, dtype=torch.float64, device="cpu") * mels)
    frequencies = torch.arange(frame // 2 + 1, dtype=torch.float64, device="cpu")[:, None] * rate / frame
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (frequencies - left) / (middle - left), (right - frequencies) / (right - middle)
    return torch.minimum(rising, falling).clamp(min=0) * 2 / (right - left)
