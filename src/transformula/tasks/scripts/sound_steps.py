"""Sounds at another rate: the windowed sinc of pipeline.json's model, in numpy."""

import math

import numpy

LOBES, ROLL_OFF = 24, 0.96  # zero crossings on each side, and the limit, as a share of half the lower rate


def resampled(wave, rate, to):
    """A waveform (samples,) float32 at another rate; outside of it are zeros."""
    if rate == to:
        return wave
    common = math.gcd(rate, to)
    up, down = to // common, rate // common
    limit = ROLL_OFF * min(1.0, up / down)
    half = math.ceil(LOBES / limit)
    exact = numpy.arange(up) * down / up
    first = numpy.floor(exact).astype(int)
    apart = numpy.arange(-half, half + 1)[None] - (exact - first)[:, None]
    window = numpy.where(abs(apart) < half, numpy.cos(apart / half * math.pi / 2) ** 2, 0.0)
    weights = (limit * numpy.sinc(limit * apart) * window).astype(numpy.float32)
    padded = numpy.pad(wave, (half, half + down + 1))
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    places = numpy.arange(math.ceil(len(wave) * to / rate))
    parts = [
        (windows[some // up * down + first[some % up]] * weights[some % up]).sum(1)
        for some in numpy.array_split(places, 1 + len(places) // 65536)
    ]
    return numpy.concatenate(parts)
