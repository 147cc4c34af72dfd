"""Images from files: what is read, and what is refused with the name of the file."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indubio.data import ExampleStream, ImageFiles, Images, Reading, are_images
from indubio.errors import ConfigError, DataError, ShapeError

RNG = np.random.default_rng(0)


def pixels(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, size=shape, dtype=np.uint8)


def saved(path: Path, values: np.ndarray, mode: str | None = None, **options) -> np.ndarray:
    image = Image.fromarray(values)
    (image if mode is None else image.convert(mode)).save(path, **options)
    return values


def test_grey_images_keep_their_numbers_and_their_names_in_natural_order(tmp_path):
    made = {f"part{n}.png": saved(tmp_path / f"part{n}.png", pixels(5, 7)) for n in (10, 2, 1)}
    found = ImageFiles().read(tmp_path)
    assert found.origin["file"].to_pylist() == ["part1.png", "part2.png", "part10.png"]
    assert found.channels == ("grey",)
    assert found.values.dtype == np.float64
    for name, values in zip(found.origin["file"].to_pylist(), found.values, strict=True):
        np.testing.assert_array_equal(values[..., 0], made[name])


def test_coloured_images_have_three_channels(tmp_path):
    values = saved(tmp_path / "a.png", pixels(4, 6, 3))
    found = ImageFiles().read(tmp_path / "a.png")
    assert found.channels == ("red", "green", "blue")
    np.testing.assert_array_equal(found.values[0], values)


def test_a_jpeg_is_what_pillow_makes_of_it(tmp_path):
    saved(tmp_path / "a.jpg", pixels(9, 6, 3), quality=95)
    np.testing.assert_array_equal(ImageFiles().read(tmp_path).values[0], np.asarray(Image.open(tmp_path / "a.jpg")))


def test_sixteen_bits_a_pixel_are_all_kept(tmp_path):
    values = RNG.integers(0, 2**16, size=(5, 4), dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    np.testing.assert_array_equal(ImageFiles().read(tmp_path).values[0, ..., 0], values)
    with pytest.raises(DataError, match=r"a\.png.*grey only"):
        ImageFiles(colour="rgb", recolour=True).read(tmp_path)


def test_a_photograph_is_turned_as_the_camera_was_held(tmp_path):
    values, exif = pixels(4, 6), Image.Exif()
    exif[0x0112] = 6  # the camera stood on its side: what was stored as the left side is the top
    Image.fromarray(values).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(ImageFiles().read(tmp_path).values[0, ..., 0], np.rot90(values, -1))


def test_an_image_of_another_size_is_refused_by_name_and_resized_only_when_asked(tmp_path):
    saved(tmp_path / "a.png", pixels(6, 8))
    saved(tmp_path / "b.png", np.full((12, 16), 200, np.uint8))
    with pytest.raises(
        DataError, match=r"b\.png: this image has 12 x 16 pixels, and 6 x 8 are wanted.*`images.resize`"
    ):
        ImageFiles().read(tmp_path)
    with pytest.raises(DataError, match=r"a\.png: this image has 6 x 8 pixels, and 3 x 4 are wanted"):
        ImageFiles(size=(3, 4)).read(tmp_path)
    found = ImageFiles(size=(3, 4), resize=True).read(tmp_path)
    assert found.values.shape == (2, 3, 4, 1)
    np.testing.assert_array_equal(found.values[1], 200)  # of one colour, at any size


def test_grey_and_coloured_images_are_mixed_only_when_asked(tmp_path):
    grey = saved(tmp_path / "a.png", pixels(5, 5))
    saved(tmp_path / "b.png", pixels(5, 5, 3))
    with pytest.raises(DataError, match=r"b\.png: this image has colours.*`images.recolour`"):
        ImageFiles().read(tmp_path)
    coloured = ImageFiles(colour="rgb", recolour=True).read(tmp_path)
    np.testing.assert_array_equal(coloured.values[0], np.repeat(grey[..., None], 3, axis=2))
    as_grey = ImageFiles(colour="grey", recolour=True).read(tmp_path)
    assert as_grey.values.shape == (2, 5, 5, 1)


def test_a_transparent_image_is_refused_and_an_opaque_alpha_channel_is_left_out(tmp_path):
    values = pixels(4, 4, 4)
    values[..., 3] = 255
    saved(tmp_path / "a.png", values)
    np.testing.assert_array_equal(ImageFiles().read(tmp_path).values[0], values[..., :3])
    values[1, 1, 3] = 7
    saved(tmp_path / "a.png", values)
    with pytest.raises(DataError, match=r"a\.png: parts of this image are transparent"):
        ImageFiles().read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no image", "cut"])
def test_a_file_that_is_no_image_is_named(tmp_path, content):
    saved(tmp_path / "a.png", pixels(30, 30))
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "b.png").write_bytes(whole[: len(whole) // 2] if content == "cut" else content)
    with pytest.raises(DataError, match=r"b\.png: not an image that can be read"):
        ImageFiles().read(tmp_path)


def test_new_images_must_be_like_those_that_were_read_first(tmp_path):
    first, later = tmp_path / "first", tmp_path / "later"
    first.mkdir(), later.mkdir()
    saved(first / "a.png", pixels(5, 6))
    known = ImageFiles().resolved(first)
    assert (known.size, known.colour) == ((5, 6), "grey")
    saved(later / "z.png", pixels(6, 5))
    with pytest.raises(DataError, match=r"z\.png: this image has 6 x 5 pixels, and 5 x 6 are wanted"):
        known.read(later)
    saved(later / "z.png", pixels(5, 6, 3))
    with pytest.raises(DataError, match=r"z\.png: this image has colours"):
        known.read(later)


def test_a_stream_in_parts_is_the_whole(tmp_path):
    for n in range(5):
        saved(tmp_path / f"{n}.png", pixels(4, 4))
    parts = list(ImageFiles().stream(tmp_path, at_once=2))
    whole, joined = ImageFiles().read(tmp_path), Images.joined(parts)
    assert [len(part) for part in parts] == [2, 2, 1]
    np.testing.assert_array_equal(joined.values, whole.values)
    assert joined.origin.equals(whole.origin)
    assert whole.select(np.array([3, 1])).origin["file"].to_pylist() == ["3.png", "1.png"]
    assert len(whole.select(np.arange(5) > 2)) == 2
    assert repr(whole) == "Images(5 images of 4 x 4 pixels: grey)"


def test_images_of_different_sizes_are_not_joined(tmp_path):
    for side in (4, 5):
        saved(tmp_path / f"{side}.png", pixels(side, side))
    parts = [ImageFiles().read(tmp_path / f"{side}.png") for side in (4, 5)]
    with pytest.raises(ShapeError, match="different sizes or channels"):
        Images.joined(parts)
    with pytest.raises(DataError, match="no examples to join"):
        Images.joined([])


def test_a_folder_is_one_of_images_when_it_holds_some_and_no_tables(tmp_path):
    assert not are_images(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    assert not are_images(tmp_path)
    saved(tmp_path / "a.PNG", pixels(4, 4))
    assert are_images(tmp_path)
    assert are_images(str(tmp_path / "*.png"))
    assert not are_images("-")
    assert not are_images(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").write_text("x\n1\n")
    with pytest.raises(DataError, match=r"holds \.csv and \.png files. Choose with a pattern"):
        are_images(tmp_path)


def test_a_folder_without_images_says_what_it_looked_for(tmp_path):
    with pytest.raises(DataError, match=r"holds no images \(\.png, \.jpg, \.jpeg\)"):
        ImageFiles().read(tmp_path)


def test_a_reading_is_of_one_kind_and_images_are_not_streamed_in_training(tmp_path):
    with pytest.raises(ConfigError, match="`images`"):
        Reading()
    with pytest.raises(ConfigError, match="held in memory"):
        ExampleStream(tmp_path, Reading(images=ImageFiles()))
