"""Minimal Debian roots, for tests of packages: debootstrap makes one, which is kept for 30 days, and each test unpacks
it. Needs root; mounts and processes of a test end with it."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "longformer"
DAYS = 30
#: Variables of the network, not of the machine.
NETWORK = ("http_proxy", "https_proxy", "no_proxy")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def alone():
    """Starts the script again with mounts and processes of its own."""
    if os.geteuid() != 0:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: needs root, for debootstrap and chroot")
    if "LONGFORMER_ALONE" in os.environ:
        del os.environ["LONGFORMER_ALONE"]
        # A test that is ended removes its roots.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return
    os.environ["LONGFORMER_ALONE"] = "1"
    own = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=TERM", "--mount-proc"]
    os.execvp("unshare", [*own, sys.executable, *sys.argv])


def suite_of_this_machine():
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME":
            return value.strip('"')
    sys.exit("expected VERSION_CODENAME in /etc/os-release, found none")


@contextlib.contextmanager
def step(what):
    print(f"--- {what}", flush=True)
    begin = time.monotonic()
    yield
    print(f"--- {what}: {time.monotonic() - begin:.1f} s", flush=True)


def _archive(suite):
    """The archive of a minimal root, made where it is missing or old."""
    archive = CACHE / "roots" / f"{suite}.tar"
    if archive.exists() and time.time() - archive.stat().st_mtime < DAYS * 86400:
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="longformer-root.") as folder:
        mirror = [os.environ["DEBIAN_MIRROR"]] if os.environ.get("DEBIAN_MIRROR") else []
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", suite, f"{folder}/root", *mirror], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if made.returncode != 0:
            sys.exit("\n".join(made.stdout.splitlines()[-20:]))
        temporary = archive.with_suffix(f".{os.getpid()}")
        subprocess.run(["tar", "-C", f"{folder}/root", "--numeric-owner", "-cf", temporary, "."], check=True)
        temporary.rename(archive)
    return archive


class Root:
    """A root with the network of this machine; `with` removes it."""

    def __init__(self, suite):
        self.path = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="longformer-root."))
        self.path.chmod(0o755)
        subprocess.run(["tar", "-C", self.path, "--numeric-owner", "-xpf", _archive(suite)], check=True)
        self._mounts = []
        self.mount("proc", "/proc", "-t", "proc")
        self.mount("/dev", "/dev", "--rbind")
        shutil.copy("/etc/resolv.conf", self.path / "etc/resolv.conf")
        (self.path / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        # The first process of its namespace reaches all others, which may still write into the root.
        if os.getpid() == 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        for target in reversed(self._mounts):
            subprocess.run(["umount", "--lazy", target], check=False)
        if any(os.path.ismount(target) for target in self._mounts):
            sys.exit(f"{self.path} has mounts, so it stays")
        if os.environ.get("KEEP"):
            print(f"kept: {self.path}")
        else:
            shutil.rmtree(self.path)

    def at(self, path):
        return self.path / str(path).lstrip("/")

    def mount(self, source, target, *options):
        """Source may be a folder of this machine (--bind)."""
        self.at(target).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", *options, str(source), self.at(target)], check=True)
        self._mounts.append(self.at(target))

    def words(self, command, user=None, folder="/", environment=None):
        """The words that run a command of the root, a list, from outside."""
        network = {name: os.environ[name] for name in NETWORK if name in os.environ}
        variables = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **network, **(environment or {})}
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        in_folder = ["env", f"--chdir={folder}", "-i", *(f"{name}={value}" for name, value in variables.items())]
        return ["chroot", str(self.path), *as_user, *in_folder, *command]

    def run(self, command, code=0, **how):
        """Output of a command, a list or a line for the shell; any other exit code than expected ends the test."""
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        done = subprocess.run(
            self.words(words, **how), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
        )
        if done.returncode != code:
            sys.exit(f"{command}: expected exit code {code}, found {done.returncode}:\n" + "\n".join(done.stdout.splitlines()[-40:]))
        return done.stdout

    def bytes(self):
        """Bytes of its files, without mounts."""
        return int(subprocess.run(["du", "-sxb", self.path], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0])


def expect(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")


def expect_in(part, text, what):
    if part not in text:
        sys.exit(f"{what}: expected {part!r}, found {text[-2000:]!r}")
