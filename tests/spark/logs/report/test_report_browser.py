"""The page in a real browser, where one is installed: it draws, shows what is chosen, and fits."""

from __future__ import annotations

import json
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.testing.logs.usual import Usual

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium on this machine (apt-get install chromium)"
)
PATIENCE_S = 120
START_MS, STEP_MS, LINES = 1_790_000_000_000, 600, 3_000
DARK = "--blink-settings=preferredColorScheme=0"
PHONE_PX = 360
# What a person does and sees, written where it can be read afterwards.
CHOOSE = """
const choose = place => place.dispatchEvent(new MouseEvent("click", {bubbles: true}));
const texts = (of, within) => [...within.querySelectorAll(of)].map(each => each.textContent);
const before = document.getElementById("window").hidden;
choose(document.querySelectorAll("figure.plot g[data-window]")[5]);
const opened = document.getElementById("window");
const services = texts("table:first-of-type button", opened), kinds = opened.querySelectorAll("details").length;
choose([...opened.querySelectorAll("button")].find(each => each.textContent === "nginx-access"));
const own = texts("button", opened);
opened.querySelector("summary").click();
document.title = JSON.stringify({
  before, after: opened.hidden, services, kinds, own, hash: location.hash,
  sample: opened.querySelector("details[open] > code").textContent,
  chosen: document.querySelectorAll("g.chosen").length,
  requests: performance.getEntriesByType("resource").length,
  back: getComputedStyle(document.body).backgroundColor, text: getComputedStyle(document.body).color,
  tall: document.querySelector("svg").getBoundingClientRect().height,
});
"""
MEASURE = """
onload = () => {
  const page = document.querySelector("iframe").contentDocument, wide = page.documentElement;
  const out = [...page.querySelectorAll("h1, h2, p, figure, svg, .legend")].filter(
    each => each.getBoundingClientRect().right > innerWidthOf(page) + 1);
  document.title = JSON.stringify({scroll: wide.scrollWidth, inner: innerWidthOf(page), out: out.length,
    hidden: getComputedStyle(page.querySelector("th.less")).display});
};
const innerWidthOf = page => page.defaultView.innerWidth;
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("browser")
    usual = Usual(3)
    texts: dict[str, list[bytes]] = {}
    for number in range(LINES):
        name, line = usual.line(START_MS + number * STEP_MS)
        texts.setdefault(name, []).append(line)
    for name, lines in texts.items():
        (folder / f"{name}.log").write_bytes(b"\n".join(lines))
    out = folder / "page.html"
    assert main(["logs", "report", *map(str, sorted(folder.glob("*.log"))), "--out", str(out)]) == 0
    return out.read_text("utf-8")


def seen(folder: Path, text: str, *flags: str) -> dict[str, Any]:
    """What the page's title says after its scripts have run; none of them may fail."""
    assert BROWSER is not None
    (folder / "page.html").write_text(text, "utf-8")
    plain = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        [BROWSER, *plain, f"--user-data-dir={folder / 'profile'}", *flags, f"file://{folder / 'page.html'}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert "Uncaught" not in done.stderr, done.stderr
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    found: dict[str, Any] = json.loads(unescape(title))
    return found


def test_a_window_that_is_chosen_shows_its_services_and_lines(page: str, tmp_path: Path) -> None:
    found = seen(tmp_path, f"{page}<script>{CHOOSE}</script>")
    assert (found["before"], found["after"], found["hash"]) == (True, False, "#w5")
    assert {"nginx-access", "shop-java", "sshd"} <= set(found["services"])
    assert found["kinds"] > len(found["services"])
    assert set(found["own"]) == {"nginx-access"}
    assert "HTTP/1.1" in found["sample"]
    # The bar, and the squares of the services.
    assert found["chosen"] > 5
    assert found["requests"] == 0
    assert found["tall"] == 200
    assert found["back"] == "rgb(255, 255, 255)"


def test_it_is_dark_where_people_like_that(page: str, tmp_path: Path) -> None:
    found = seen(tmp_path, f"{page}<script>{CHOOSE}</script>", DARK)
    assert max(map(int, found["back"][4:-1].split(","))) < 50
    assert min(map(int, found["text"][4:-1].split(","))) > 200


def test_it_fits_a_phone(page: str, tmp_path: Path) -> None:
    frame = f'<iframe style="width:{PHONE_PX}px;height:800px;border:0" srcdoc="{escape(page)}"></iframe>'
    found = seen(tmp_path, f"<!doctype html><title>-</title><script>{MEASURE}</script>{frame}")
    assert found["inner"] == PHONE_PX
    assert found["scroll"] <= PHONE_PX
    assert (found["out"], found["hidden"]) == (0, "none")
