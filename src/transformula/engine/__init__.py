"""The engine: a decoding step of any formula as a list of numbers that one file of kernels replays.

A step is recorded while PyTorch makes it at several lengths of the past (`recording`); every address, size and stride
in it is then base + slope * past (`merging`); each operation becomes the words of an instruction (`lowering`), which
`kernels.cpp` runs (`program`). What is not so, what no kernel does, and machines without a compiler are left to PyTorch
(`machine`). Nothing is compiled for a formula.
"""

from .quickening import products_with, quicken, why_no_kernels

__all__ = ["products_with", "quicken", "why_no_kernels"]
