"""Pictures of the verb `attention`, read back by Pillow, by an XML parser and by pypdf."""

import base64
import io
import xml.etree.ElementTree

import numpy as np
import pypdf
import pytest
from cli_test import BERT, longformer, run  # noqa: F401  (longformer is a fixture)
from PIL import Image

CELL = 32
FORMS = ["png", "svg", "pdf"]
FRAME = (150, 150, 158)
GLOBAL = (37, 99, 235)
SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"


def picture(form, model, *flags, maps="0"):
    """The bytes of a picture of a layer and head."""
    return run("attention", model, "--format", form, "--layer", maps, "--head", maps, *flags).passes().raw


def pixels(raw):
    return np.asarray(Image.open(io.BytesIO(raw)).convert("RGB")).astype(int)


def svg_images(raw):
    """The pixels of every image of an SVG."""
    hrefs = [image.get(HREF) for image in xml.etree.ElementTree.fromstring(raw).iter(SVG + "image")]
    return [pixels(base64.b64decode(href.removeprefix("data:image/png;base64,"))) for href in hrefs]


def pdf_page(raw):
    reader = pypdf.PdfReader(io.BytesIO(raw))
    assert len(reader.pages) == 1
    return reader.pages[0]


def pdf_images(raw):
    return [np.asarray(image.image.convert("RGB")).astype(int) for image in pdf_page(raw).images]


def cells(form, raw, n):
    """The pixels of the panel of n tokens."""
    side = n * CELL
    if form == "png":
        image = pixels(raw)
        top, left = panel_corner(image)
        return image[top : top + side, left : left + side]
    images = svg_images(raw) if form == "svg" else pdf_images(raw)
    return next(image for image in images if image.shape[:2] == (side, side))


def panel_corner(image):
    """Row and column of the first pixel within the frame of the first panel."""
    is_frame = (image == FRAME).all(-1)
    rows = np.flatnonzero(is_frame.sum(1) > 90)
    columns = np.flatnonzero(is_frame.sum(0) > 90)
    return rows[0] + 1, columns[0] + 1


def colour(p):
    scale = np.array([(255, 247, 205), (254, 216, 118), (252, 141, 60), (214, 41, 37), (62, 8, 74)])
    at = np.clip(1 + np.log10(p) / 4, 0, 1) * 4
    return [np.interp(at, range(5), scale[:, channel]) for channel in range(3)]


def groups(inked, gap):
    """[begin, end) of each run of True that is at least `gap` from the next."""
    found = []
    for at in np.flatnonzero(inked).tolist():
        if found and at - found[-1][1] < gap:
            found[-1][1] = at + 1
        else:
            found.append([at, at + 1])
    return found


def name_inks(image, n):
    """For each of n tokens the columns with ink of its name, left of the panel."""
    top, left = panel_corner(image)
    inked = (image[:, : left - 9] < 200).any(-1)
    # Further left is the name of the axis.
    first = groups(inked[top : top + n * CELL].any(0), 10)[1][0]
    return [groups(inked[top + i * CELL : top + (i + 1) * CELL, first:].any(0), 1) for i in range(n)]


class TestColours:
    @pytest.mark.parametrize("form", FORMS)
    def test_are_the_probabilities(self, form):
        flags = ["--text", "a b c d"]
        row = run("attention", BERT, *flags, "--layer", "0", "--head", "0", "--json", "--threshold",
                  "0").works().json[0]
        n = row["tokens"]
        assert len(row["query"]) == n * n
        image = cells(form, picture(form, BERT, *flags), n)
        for query, key, probability in zip(row["query"], row["key"], row["probability"]):
            cell = image[CELL * query : CELL * (query + 1), CELL * key : CELL * (key + 1)]
            assert (np.abs(cell - colour(probability)) <= 1.5).all()

    def test_mean_of_cells_is_paler_than_the_maximum(self, longformer, tmp_path):
        text = tmp_path / "long.txt"
        text.write_text("a b c d e " * 38)
        flags = ["attention", longformer, text, "--layer", "0", "--head", "all", "--format", "png"]
        of_max, of_mean = (pixels(run(*flags, "--cells", cells).works().raw).sum() for cells in ("max", "mean"))
        assert of_mean > of_max


class TestText:
    def test_of_a_page(self, longformer):
        page = pdf_page(picture("pdf", longformer, "--text", "a b c zyx", "--global-attention", "cls"))
        lines = page.extract_text().splitlines()
        # Once as queries, once as keys.
        assert [lines.count(word) for word in ("[CLS]", "a", "b", "c", "zyx", "[SEP]")] == [2] * 6
        for line in ("key token", "query token", "one cell per pair of tokens", "probability", "1", "0.1",
                     "0.01", "0.001", "≤ 0.0001", "none", "global token"):
            assert lines.count(line) == 1, line
        assert "layer 0, head 0: 6 tokens, 1 global" in lines[-1]

    def test_of_svg_has_a_glyph_for_each_character(self):
        flags = ["--text", "a b c zyx"]
        characters = len(pdf_page(picture("pdf", BERT, *flags)).extract_text().replace("\n", ""))
        root = xml.etree.ElementTree.fromstring(picture("svg", BERT, *flags))
        names = {element.get("id") for element in root.iter()}
        used = [use.get(HREF).removeprefix("#") for use in root.iter(SVG + "use")]
        assert set(used) <= names
        assert len([name for name in used if name.startswith("glyph")]) >= characters > 50

    def test_names_of_tokens_stand_beside_their_cells(self, longformer):
        image = pixels(picture("png", longformer, "--text", "a b c", "--global-attention", "cls"))
        assert all(name_inks(image, 5))
        top, left = panel_corner(image)
        blue = (image[:, :left] == GLOBAL).all(-1).any(1)
        assert blue[top : top + CELL].any() and not blue[top + CELL : top + 5 * CELL].any()

    def test_from_right_to_left(self):
        # A narrow letter before a wide one.
        letters = name_inks(pixels(picture("png", BERT, "--text", "וש")), 3)[1]
        (left, right) = (end - begin for begin, end in letters)
        assert left > 2 * right

    @pytest.mark.parametrize("form", FORMS)
    def test_of_any_script(self, form, tmp_path):
        words = "你好 שלום مرحبا हिन्दी 한국어 🙂 e\u0301 \u202e \u200d"
        text = tmp_path / "any.txt"
        text.write_bytes(words.encode() + b" a\xff\xfe b\xe2\x82 \x01\x7f")
        n = len(run("tokenize", BERT, text).passes().out.split())
        raw = picture(form, BERT, text)
        assert cells(form, raw, n).shape == (n * CELL, n * CELL, 3)

    def test_long_names_are_shortened(self):
        word = "Pneumonoultramicroscopicsilicovolcanoconiosis"
        short, long = (picture("pdf", BERT, "--text", text) for text in ("a b", f"{word} {'é' * 300}"))
        lines = pdf_page(long).extract_text().splitlines()
        shortened = [line for line in lines if line.endswith("…")]
        assert len([line for line in shortened if word.startswith(line[:-1]) and len(line) > 8]) == 2
        assert pdf_page(long).mediabox.width < pdf_page(short).mediabox.width + 2000
        assert word not in lines

    def test_numbers_keep_their_distance(self, longformer, tmp_path):
        text = tmp_path / "long.txt"
        text.write_text("a b c d e " * 38)
        image = pixels(picture("png", longformer, text))
        top, left = panel_corner(image)
        above = (image[top - 22 : top - 9, left - 12 : left + 1000] < 200).any(-1)
        assert len(groups(above.any(0), 12)) == 1 + 192 // 10
        beside = (image[top - 8 :, left - 40 : left - 9] < 200).any(-1)
        assert len(groups(beside.any(1), 6)) == 1 + 192 // 10

    @pytest.mark.parametrize("form", FORMS)
    def test_needs_a_font(self, form, tmp_path):
        settings = tmp_path / "fonts.conf"
        settings.write_text('<?xml version="1.0"?><fontconfig></fontconfig>')
        file = tmp_path / f"x.{form}"
        run("attention", BERT, "--text", "a", "-o", file,
            environment={"FONTCONFIG_FILE": settings}).fails(1, "installed font", "fonts-dejavu-core")
        assert not file.exists()


class TestFile:
    def test_sizes(self, longformer, tmp_path):
        text = tmp_path / "long.txt"
        text.write_text("a b c d e " * 18)
        one = pixels(picture("png", longformer, text, "--global-attention", "cls"))
        grid = pixels(picture("png", longformer, text, maps="all"))
        assert 1000 < one.shape[1] < 3000 and 800 < one.shape[0] < 1500
        assert 300 < grid.shape[1] < 1500 and 300 < grid.shape[0] < 900

    def test_a_panel_for_each_head(self, longformer):
        raw = picture("svg", longformer, "--text", "a b c d e f", maps="all")
        panels = [image for image in svg_images(raw) if image.shape[0] == image.shape[1]]
        assert len(panels) == 4
        lines = pdf_page(picture("pdf", longformer, "--text", "a b", maps="all")).extract_text()
        assert all(lines.count(name) == 1 for name in ("layer 0", "layer 1", "head 0", "head 1"))

    @pytest.mark.parametrize("name,begin", [("x.png", b"\x89PNG\r\n\x1a\n"), ("x.svg", b"<?xml"),
                                            ("x.pdf", b"%PDF-"), ("X.PDF", b"%PDF-"), ("a.b.Svg", b"<?xml")])
    def test_form_follows_from_the_name(self, name, begin, tmp_path):
        run("attention", BERT, "--text", "a", "-o", tmp_path / name).works()
        assert (tmp_path / name).read_bytes().startswith(begin)

    @pytest.mark.parametrize("name", ["x.jpg", "x.gif", "x.webp", "x.pn"])
    def test_unknown_names(self, name, tmp_path):
        file = tmp_path / name
        run("attention", BERT, "--text", "a", "-o", file).fails(2, "-o", ".png, .svg, .pdf", name)
        assert not file.exists()
        run("attention", BERT, "--text", "a", "-o", file, "--format", "png").works()
        assert Image.open(file).format == "PNG"
