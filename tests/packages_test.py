"""Installed files and their removal: `make install` and `make uninstall`, versions, licenses, the Dockerfile."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

BINARY = pathlib.Path(os.environ["LONGFORMER_BINARY"])
ROOT = pathlib.Path(__file__).resolve().parents[1]
UNINSTALL = ROOT / "tools" / "uninstall.py"
VERSION = re.search(r"project\(longformer VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def uninstall(build, *prefix, destination=""):
    return subprocess.run(
        [sys.executable, UNINSTALL, build, *prefix], capture_output=True, text=True, env={**os.environ, "DESTDIR": str(destination)}, check=False
    )


def refused(done, *words):
    assert done.returncode == 1 and done.stdout == "", (done.returncode, done.stdout)
    assert done.stderr.startswith("uninstall: ") and done.stderr.count("\n") == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr


def files_below(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir())


class TestInstallation:
    @pytest.fixture
    def build(self):
        """The folder of this build; lists of an installation that its user made stay."""
        kept = {name: (BINARY.parent / name).read_bytes() for name in ("install_manifest.txt", "install_folders.txt") if (BINARY.parent / name).exists()}
        yield BINARY.parent
        for name in ("install_manifest.txt", "install_folders.txt"):
            (BINARY.parent / name).unlink(missing_ok=True)
        for name, content in kept.items():
            (BINARY.parent / name).write_bytes(content)

    def install(self, build, prefix, destination=""):
        done = subprocess.run(
            ["cmake", "--install", build, "--prefix", prefix], capture_output=True, text=True, env={**os.environ, "DESTDIR": str(destination)}, check=False
        )
        assert done.returncode == 0, done.stderr

    def test_round_trip(self, build, tmp_path):
        prefix = tmp_path / "new" / "with space"
        self.install(build, prefix)
        names = files_below(prefix)
        for name in ("bin/longformer", "include/longformer/embedding.h", "lib/systemd/system/longformer@.service",
                     "share/fish/vendor_completions.d/longformer.fish", "share/doc/longformer/copyright"):  # fmt: skip
            assert name in names
        said = subprocess.run([prefix / "bin" / "longformer", "--version"], capture_output=True, text=True, check=True).stdout
        assert said == f"longformer {VERSION}\n"
        refused(uninstall(build, tmp_path / "other"), "PREFIX", "found")
        assert files_below(prefix) == names
        # Installed twice, one removal is enough.
        self.install(build, prefix)
        done = uninstall(build, prefix)
        assert done.returncode == 0 and done.stdout.startswith(f"removed {len(names)} files and "), done
        assert not list(tmp_path.iterdir())
        refused(uninstall(build, prefix), "install_manifest.txt", "found none")

    def test_a_destination_and_what_was_there(self, build, tmp_path):
        destination = tmp_path / "destination"
        (destination / "usr/local/bin").mkdir(parents=True)
        (destination / "usr/local/share/man").mkdir(parents=True)
        self.install(build, "/usr/local", destination)
        assert (destination / "usr/local/bin/longformer").exists()
        # Files of others stay, and their folders.
        (destination / "usr/local/include/longformer/mine.h").write_text("")
        refused(uninstall(build), "DESTDIR")
        refused(uninstall(build, destination=tmp_path / "elsewhere"), "DESTDIR")
        done = uninstall(build, destination=destination)
        assert done.returncode == 0, done.stderr
        assert files_below(destination) == ["usr/local/include/longformer/mine.h"]
        assert (destination / "usr/local/bin").is_dir() and (destination / "usr/local/share/man").is_dir()
        assert not (destination / "usr/local/lib").exists() and not (destination / "usr/local/share/man/man1").exists()

    def test_nothing_is_known(self, tmp_path):
        refused(uninstall(tmp_path), "install_manifest.txt", "make install")
        (tmp_path / "install_manifest.txt").write_text("")
        refused(uninstall(tmp_path), "found none")

    def test_a_folder_in_the_place_of_a_file(self, tmp_path):
        (tmp_path / "a").write_text("")
        (tmp_path / "b").mkdir()
        (tmp_path / "install_manifest.txt").write_text(f"{tmp_path}/a\n{tmp_path}/b\n")
        refused(uninstall(tmp_path), f"{tmp_path}/b")
        assert (tmp_path / "a").exists()


def test_versions_agree():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert newest == VERSION
    assert subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout == f"longformer {VERSION}\n"


def test_licenses_are_whole():
    """Each license that the copyright file names is in it, and each library whose headers are compiled in."""
    text = (ROOT / "packaging" / "copyright").read_text()
    paragraphs = re.split(r"\n\n+", text.strip())
    used = {match[1] for one in paragraphs if one.startswith("Files:") for match in re.finditer(r"^License: (\S+)$", one, re.M)}
    texts = {match[1] for one in paragraphs if (match := re.match(r"License: (\S+)\n ", one))}
    assert used == texts
    for header in ("boost", "CLI", "nlohmann", "fmt", "hwy", "oneapi", "nanobind"):
        assert f"Files: {header}/*" in text, header


def test_the_dockerfile_is_one_that_its_test_does():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import image_test
    finally:
        sys.path.pop(0)
    words = [word for word, _ in image_test.instructions((ROOT / "Dockerfile").read_text())]
    assert set(words) <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "VOLUME", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    rest = dict(image_test.instructions((ROOT / "Dockerfile").read_text()))
    assert rest["USER"] == "65532:65532" and '"serve", "--check"' in rest["HEALTHCHECK"] and "HF_HOME=" in rest["ENV"]
    known = set(re.findall(r"^  \[([a-z0-9]+)\]=", (ROOT / "tools" / "packages.sh").read_text(), re.M))
    groups = re.search(r"&& tools/packages\.sh ([a-z ]+)", (ROOT / "Dockerfile").read_text())[1].split()
    assert groups == ["build", "deb"] and set(groups) <= known
