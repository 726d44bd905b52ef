"""The page of `longformer attention` in a real browser: what a person sees and does with it."""

import re

import numpy as np
import pytest
import webdriver
from cli_attention_test import decoded, page_data
from cli_test import longformer, run  # noqa: F401  (longformer is a fixture)

pytestmark = pytest.mark.skipif(
    not webdriver.available(), reason="no chromium with chromedriver: tools/packages.sh browser")

TEXT = "a b <b>c</b> & d e\n\nb a é c" + "\n\na b c d e" * 14


@pytest.fixture(scope="module")
def page(longformer, tmp_path_factory):
    """A browser at the page, the page's data, and its maps as arrays."""
    folder = tmp_path_factory.mktemp("browser")
    file = folder / "page.html"
    run("attention", longformer, "--text", TEXT, "--global-attention", "cls", "-o", file).works()
    data, maps = page_data(file.read_text())
    n = len(data["tokens"])
    with webdriver.browser(folder) as browser:
        browser.open(file)
        browser.file, browser.data = file, data
        browser.maps = {name: decoded(content, n) for name, content in maps.items()}
        yield browser
        assert browser.errors() == []


@pytest.fixture(autouse=True)
def fresh(page):
    """Nothing pinned, mean of heads of layer 0, direction "attends to"."""
    page.run("release(); layer.value = '0'; head.value = 'mean'; loadMap();"
             "document.querySelector('input[value=to]').click(); window.scrollTo(0, 0)")


def coloured(page):
    """{token: strength} of the tokens that are coloured."""
    found = page.run(
        "return spans.filter((span) => span.classList.contains('hit'))"
        ".map((span) => [Number(span.dataset.token), Number(span.style.getPropertyValue('--strength'))])")
    return dict(found)


def expected_tokens(page, token, layer="0", head="mean", by=False):
    """{token: strength} from the data of the file."""
    row = page.maps[layer, head][:, token] if by else page.maps[layer, head][token]
    keys = np.flatnonzero(row)
    return {int(k): 0.12 + 0.88 * np.sqrt(row[k] / row.max()) for k in keys}


def check_colours(page, token, **which):
    found, wanted = coloured(page), expected_tokens(page, token, **which)
    assert wanted and found.keys() == wanted.keys()
    for key, strength in wanted.items():
        assert found[key] == pytest.approx(strength, abs=1e-3)


def test_shows_the_text_as_it_is(page):
    tokens = page.run("return spans.map((span) => span.textContent)")
    assert tokens == [token or "\u00b7" for token in page.data["tokens"]]
    shown = page.run("return text.textContent")
    assert "a b <b>c</b> & d e\n\nb a é c" in shown
    assert page.run("return text.querySelectorAll('b').length") == 0


def test_pointing_at_a_token_colours_what_it_attends_to(page):
    for token in (3, 40, len(page.data["tokens"]) - 2):
        page.point_at(f"[data-token='{token}']")
        check_colours(page, token)
        assert page.run("return spans[arguments[0]].classList.contains('from')", token)
        background = page.run(
            "return getComputedStyle(document.querySelector('.hit:not(.from)')).backgroundColor")
        assert re.match(r"rgba?\(245, 158, 11|color\(srgb 0\.96", background)


def test_the_list_names_the_same_tokens(page):
    page.point_at("[data-token='7']")
    row = page.maps["0", "mean"][7]
    listed = page.run("return [...document.querySelectorAll('#list button')].map((button) => "
                      "[Number(button.dataset.goto), button.querySelector('.share').textContent])")
    assert {token for token, _ in listed} == set(np.flatnonzero(row))
    for token, share in listed:
        assert float(share.split()[0]) == pytest.approx(100 * row[token], abs=0.5)
    assert f"{len(listed)} tokens hold" in page.run("return element('summary').textContent")


def test_layer_and_head(page):
    page.click("[data-token='9']")
    page.run("layer.value = '1'; layer.dispatchEvent(new Event('change'))")
    page.run("head.value = '1'; head.dispatchEvent(new Event('change'))")
    check_colours(page, 9, layer="1", head="1")


def test_what_attends_to_a_token(page):
    page.click("[data-token='9']")
    page.click("input[value=by]")
    check_colours(page, 9, by=True)


def test_a_click_keeps_the_token_and_escape_lets_it_go(page):
    page.click("[data-token='9']")
    page.point_at("[data-token='30']")
    check_colours(page, 9)
    page.keys("#text", "\ue00c")
    assert coloured(page) == {}
    page.point_at("[data-token='31']")
    check_colours(page, 31)


def test_keyboard_alone(page):
    right, left, down, home, end = "\ue014", "\ue012", "\ue015", "\ue011", "\ue010"
    page.keys("#text", home + right * 5 + left)
    check_colours(page, 4)
    top = page.run("return spans[4].getBoundingClientRect().top")
    page.keys("#text", down)
    below = page.run("return current")
    assert page.run("return spans[arguments[0]].getBoundingClientRect().top", below) > top
    page.keys("#text", end)
    check_colours(page, len(page.data["tokens"]) - 1)
    page.keys("#text", "]]}")
    assert page.run("return [layer.value, head.value]") == ["1", "1"]
    page.keys("#text", "d")
    check_colours(page, len(page.data["tokens"]) - 1, layer="1", head="1", by=True)
    live = page.run("return element('summary').getAttribute('aria-live')")
    assert live == "polite"


def test_the_global_token(page):
    page.point_at("[data-token='0']")
    check_colours(page, 0)
    assert "global" in page.run("return element('current').textContent")
    assert page.run("return [...document.querySelectorAll('.global')].map((s) => s.dataset.token)") == ["0"]


def test_a_view_is_in_the_address(page):
    page.click("[data-token='12']")
    page.run("layer.value = '1'; layer.dispatchEvent(new Event('change'))")
    address = page.run("return location.hash")
    assert "layer=1" in address and "token=12" in address
    page.run("window.scrollTo(0, 1e6); location.reload()")
    check_colours(page, 12, layer="1")
    assert page.run("return layer.value") == "1"
    top = page.run("return spans[12].getBoundingClientRect().top")
    assert 0 < top < page.run("return window.innerHeight")


def test_opens_with_a_token_chosen(page):
    """The first that is a word or a number; the pointer still chooses another."""
    page.run("location.reload()")
    assert page.run("return [current, pinned]") == [1, False]
    check_colours(page, 1)
    page.point_at("[data-token='9']")
    check_colours(page, 9)


def test_the_strip_is_the_document(page):
    page.point_at("[data-token='40']")
    assert page.run("return Number(element('overview').dataset.marks)") == len(expected_tokens(page, 40))
    page.run("window.scrollTo(0, 1e6)")
    before = page.run("return window.scrollY")
    page.click("#overview")
    assert page.run("return window.scrollY") < before


def test_works_without_a_network(page):
    loaded = page.run("return performance.getEntriesByType('resource').length")
    assert loaded == 0


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_colours(dark, page, tmp_path):
    """Contrast of at least 4.5 (WCAG AA) at full strength, in light and in dark."""
    with webdriver.browser(tmp_path, dark=dark) as browser:
        browser.open(page.file)
        assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches") is dark
        ratio = browser.run(
            """
            look(5);
            const span = document.querySelector('.hit:not(.from)');
            span.style.setProperty('--strength', 1);
            const channels = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
            const light = (color) => {
              const [r, g, b] = channels(color).map((c) => c / 255)
                .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
              return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const style = getComputedStyle(span);
            const pair = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
            return (pair[0] + 0.05) / (pair[1] + 0.05);
            """)
        assert ratio >= 4.5
