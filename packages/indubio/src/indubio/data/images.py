"""Images (N, H, W, C): examples that are pictures, and how they are read from PNG and JPEG files.

Nothing is done to a picture that was not asked for: all must have one size unless one is given to resize to, and all be
grey or all coloured unless one of the two is given. Pixels keep their numbers, 0 to 255 for most files; a detector
scales them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from indubio.data.examples import Examples, Which
from indubio.data.numeric_rows import Rows, in_order_of
from indubio.data.schema import Schema
from indubio.errors import DataError, MissingExtraError, ShapeError
from indubio.io import SURE_ENDINGS as TABLES
from indubio.io import RemotePath, files_of, is_remote, local_path
from indubio.settings import AtLeastOne, Settings

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg")
VALUES_AT_ONCE = 2**22  # of images that are read together
MOST_VALUES = 2**29  # of all images that are held in memory, 4 GiB
GREY = ("1", "L", "LA", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")  # what Pillow calls them; all others have colours
DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")  # more than 8 bits, which a conversion to "L" would cut off
OPAQUE = 255

Colour = Literal["grey", "rgb"]
CHANNELS: dict[Colour, tuple[str, ...]] = {"grey": ("grey",), "rgb": ("red", "green", "blue")}


@dataclass(frozen=True, kw_only=True, eq=False)
class Images(Examples):
    """Pictures of one size.

    Args:
        values: of the pixels.
        channels: names of the C channels.
        origin: one row per image, with the column file.
    """

    word = "images"

    values: Float[np.ndarray, "images height width channels"]
    channels: tuple[str, ...]
    origin: pa.Table

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        count, height, width, _ = self.values.shape
        return f"Images({count} images of {height} x {width} pixels: {', '.join(self.channels)})"

    def select(self, which: Which) -> Self:
        """Some of the images: by a mask, or by their numbers, in the order of these."""
        chosen = self._numbers(which)
        return replace(self, values=self.values[chosen], origin=self.origin.take(pa.array(chosen)))

    def _joined_with(self, others: Sequence[Self]) -> Self:
        for other in others:
            if (other.channels, other.values.shape[1:]) != (self.channels, self.values.shape[1:]):
                raise ShapeError(f"images of different sizes or channels cannot be joined: {self} and {other}.")
        parts = [self, *others]
        return replace(
            self,
            values=np.concatenate([part.values for part in parts]),
            origin=pa.concat_tables([part.origin for part in parts]).combine_chunks(),
        )

    def training_schema(self) -> Schema:
        """Names and ranges of the channels, to train with."""
        return Schema.of_values(self.values, self.channels)

    def rows(self, schema: Schema) -> Rows:
        """The images as numbers, their channels in the order of the schema."""
        return Rows(values=in_order_of(schema, self.values, self.channels, "channels", self.word), names=schema.names)

    def bare(self) -> Self:
        """The pixels alone; images of a file and of a store have other origins."""
        return replace(self, origin=pa.table({"image": np.arange(len(self))}))

    @property
    def beside(self) -> pa.Table:
        """Where each image came from."""
        return self.origin


@dataclass(frozen=True, kw_only=True)
class ImageFiles(Settings):
    """How image files are read.

    Args:
        size: height and width of every image; None takes those of the first one.
        colour: "grey" or "rgb"; None takes that of the first image.
        resize: images of another size are resized, and else refused.
        recolour: images of another colour are turned into `colour`, and else refused.
    """

    size: tuple[AtLeastOne, AtLeastOne] | None = None
    colour: Colour | None = None
    resize: bool = False
    recolour: bool = False

    def resolved(self, source: Any) -> "ImageFiles":
        """These settings with the size and colour of the first image, where none is given."""
        if self.size is not None and self.colour is not None:
            return self
        with _opened(_files(source)[0]) as image:
            size = self.size or (image.height, image.width)
            return self.replaced(size=size, colour=self.colour or _colour(image))

    def read(self, source: Any) -> Images:
        """All images, in memory.

        Args:
            source: a file, a folder, a pattern such as "parts/*.png", or several paths.
        """
        known, count = self.resolved(source), len(_files(source))
        if count * known._values_each > MOST_VALUES:
            raise DataError(
                f"{source}: {count} images of {_size(known.size)} pixels are too many to hold in memory. Give fewer, "
                "or a smaller size to resize them to, by `images.size` and `images.resize`."
            )
        return Images.joined(list(known.stream(source)))

    def stream(self, source: Any, *, at_once: int | None = None) -> Iterator[Images]:
        """All images, some at a time.

        Args:
            source: as for `read`.
            at_once: images in a part; None makes parts of about 32 MB.
        """
        files, known = _files(source), self.resolved(source)
        count = at_once or max(1, VALUES_AT_ONCE // known._values_each)
        for start in range(0, len(files), count):
            some = files[start : start + count]
            yield Images(
                values=np.stack([known.pixels(path) for path in some]),
                channels=known._channels,
                origin=pa.table({"file": [path.name for path in some]}),
            )

    def pixels(self, path: Path | RemotePath) -> Float[np.ndarray, "height width channels"]:
        """One image, its size and colour checked, or made to be what they should."""
        from PIL.Image import Resampling

        with _opened(path) as image:
            kept = self._coloured(image, path)
            if self.size not in (None, (kept.height, kept.width)):
                if not self.resize:
                    raise DataError(
                        f"{path}: this image has {_size((kept.height, kept.width))} pixels, and {_size(self.size)} are "
                        "wanted. Leave it out, or have all images resized when the model is fitted, by `images.size` "
                        "and `images.resize`."
                    )
                kept = kept.convert("F") if kept.mode in DEEP else kept
                kept = kept.resize(self.size[::-1], Resampling.BILINEAR)
            values = np.asarray(kept, dtype=np.float64)
        return values if values.ndim == 3 else values[..., None]

    def _coloured(self, image: "Image", path: Path | RemotePath) -> "Image":
        wanted = self.colour or _colour(image)
        if _colour(image) != wanted and not self.recolour:
            has = {"grey": "is grey", "rgb": "has colours"}[_colour(image)]
            raise DataError(
                f"{path}: this image {has}, and others are not like that. Leave it out, or have all images read alike "
                "when the model is fitted, by `images.colour` and `images.recolour`."
            )
        if image.mode in DEEP:
            if wanted == "rgb":
                raise DataError(f"{path}: an image with more than 8 bits a pixel can be read as grey only.")
            return image
        return image.convert("L" if wanted == "grey" else "RGB")

    @property
    def _channels(self) -> tuple[str, ...]:
        assert self.colour is not None
        return CHANNELS[self.colour]

    @property
    def _values_each(self) -> int:
        assert self.size is not None
        return self.size[0] * self.size[1] * len(self._channels)


def are_images(source: Any) -> bool:
    """Whether a source names image files: a path or pattern that ends so, or a folder that holds some."""
    if not isinstance(source, str | Path) or str(source) == "-":
        return False
    path = local_path(source)
    if is_remote(source) or not path.is_dir():
        return path.suffix.lower() in SUFFIXES
    kinds = {item.suffix.lower() for item in path.iterdir() if not item.name.startswith(".")}
    if not kinds & set(SUFFIXES):
        return False
    if tables := sorted(kinds & set(TABLES)):
        images = sorted(kinds & set(SUFFIXES))
        raise DataError(
            f'{source}: holds {tables[0]} and {images[0]} files. Choose with a pattern: "{source}/*{images[0]}".'
        )
    return True


def _files(source: Any) -> Sequence[Path | RemotePath]:
    several = isinstance(source, Sequence) and not isinstance(source, str)
    return [path for one in (source if several else [source]) for path in files_of(one, SUFFIXES, called="images")]


@contextmanager
def _opened(path: Path | RemotePath) -> "Iterator[Image]":
    """The image as a person sees it, whichever way the camera was held; nothing of it may be transparent."""
    try:
        import PIL.Image
        from PIL import ImageOps
    except ImportError:
        raise MissingExtraError('reading images needs Pillow: pip install "indubio[images]".') from None
    try:
        with PIL.Image.open(path.opened() if isinstance(path, RemotePath) else path) as file:
            image = ImageOps.exif_transpose(file)
            image.load()
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise DataError(f"{path}: not an image that can be read: {error}.") from None
    if image.has_transparency_data and np.asarray(image.convert("RGBA").getchannel("A")).min() < OPAQUE:
        raise DataError(f"{path}: parts of this image are transparent. Save it on a background.")
    yield image


def _colour(image: "Image") -> Colour:
    return "grey" if image.mode in GREY else "rgb"


def _size(size: tuple[int, int] | None) -> str:
    return "" if size is None else f"{size[0]} x {size[1]}"
