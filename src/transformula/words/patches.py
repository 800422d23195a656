"""Images as sequences: `patches`."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from .word import GeneratorFor, Word, empty, fill, fill_normal, flag, spread, whole, word


@word(
    "patches",
    streams=("image",),
    numbers=("size",),
    kind="input",
    width="width",
    sequence="own",
    real="patches",
    options={
        "size": whole("side of a square patch, in pixels", minimum=1, shapes=True),
        "channels": whole("color channels of a pixel", 3, minimum=1, shapes=True),
        "bias": flag("whether there is a bias b", True, shapes=True),
        "width": whole("width of the result", "width", minimum=1, shapes=True),
    },
    parameters={"weight": "width * channels * size * size", "bias": "width if bias else 0"},
    flops="2 * width * channels * size * size",
    saved="channels * size * size",
    initial_scale="unknown",
    example="causal: false\nbefore: p = patches(image, 4); x = p + positions(p, rows=64)",
    equation="y_i = W patch_i + b",
    source="ViT: Dosovitskiy et al., 2010.11929",
)
class Patches(Word):
    """y_i = W patch_i + b: an image cut into squares of size x size pixels, each flattened, through one matrix.

    image (batch, channels, height, width) to y (batch, rows * columns, width), with rows = height / size, columns =
    width / size: squares row by row, from the upper left. A flattened square holds its first channel row by row, then
    the second: so y is ViT's convolution with stride `size`, whose weight (width, channels, size, size) is W reshaped.

    weight W (width, channels * size * size), from N(0, 1 / (3 fan_in)); bias b (width,), 0.

    Raises InputError for what is not such an image, and for a height or width that does not divide into squares.
    """

    def __init__(self, size: int, width: int, channels: int = 3, bias: bool = True, image: int | None = None) -> None:
        super().__init__()
        self.size, self.channels = size, channels
        self.weight = empty(width, channels * size * size)
        self.bias = empty(width) if bias else None

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill_normal(self.weight, generator_for("weight"), spread(self.weight.shape[1]))
        fill(self.bias, 0)

    def forward(self, image: Tensor) -> Tensor:
        size = self.size
        if image.dim() != 4 or image.shape[1] != self.channels:
            raise InputError(
                f"patches needs an image (batch, {self.channels}, height, width), channels before height and width; "
                f"this has the shape {tuple(image.shape)}; other numbers of channels are said by channels="
            )
        if not image.is_floating_point():
            raise InputError(
                f"an image is of floating-point numbers, this one of {image.dtype}: divide it by 255 first"
            )
        batch, channels, height, width = image.shape
        if height % size or width % size:
            raise InputError(
                f"an image of {height} x {width} pixels does not divide into squares of {size} x {size}: crop or "
                "resize it, or choose another size"
            )
        squares = image.reshape(batch, channels, height // size, size, width // size, size)
        flat = squares.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * size * size)
        return F.linear(flat.to(self.weight.dtype), self.weight, self.bias)
