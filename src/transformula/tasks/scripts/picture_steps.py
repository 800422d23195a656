"""How a picture becomes numbers, step by step. `steps` is plain data:

resize    ["exact", height, width], ["shorter", side], by which the picture keeps its proportions, or null
resample  the number of Pillow's filter
crops     [[height, width], ...]: the middle of the picture, with zeros around one that is smaller
factor    by which values are multiplied, or null
mean, std y = (x - mean) / std for each channel, or null
"""

import numpy


def picture_numbers(image, steps):
    """The numbers of a Pillow image in the mode RGB or L, (channels, height, width) float32."""
    if steps["resize"] is not None:
        image = image.resize(resized(image.size, steps["resize"]), steps["resample"])
    array = numpy.array(image)
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    for height, width in steps["crops"]:
        array = cropped(array, height, width)
    if steps["factor"] is not None:
        array = array.astype(numpy.float64) * steps["factor"]
    array = array.astype(numpy.float32)
    if steps["mean"] is not None:
        mean, std = (numpy.array(steps[key], numpy.float32)[:, None, None] for key in ("mean", "std"))
        array = (array - mean) / std
    return array


def resized(size, step):
    """The (width, height) of a picture of this size after a step."""
    kind, *sides = step
    if kind == "exact":
        height, width = sides
        return width, height
    shorter = sides[0]
    width, height = size
    if width <= height:
        return shorter, int(shorter * height / width)
    return int(shorter * width / height), shorter


def cropped(array, height, width):
    """The middle of a picture (channels, height, width), with zeros around a smaller one."""
    for axis, side in ((1, height), (2, width)):
        excess = array.shape[axis] - side
        if excess < 0:
            before, around = -(excess // 2), [(0, 0)] * 3
            around[axis] = (before, -excess - before)
            array = numpy.pad(array, around)
        else:
            first = excess // 2
            array = array.take(range(first, first + side), axis)
    return array
