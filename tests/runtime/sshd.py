"""A real sshd on the loopback interface, with keys and a cache folder of its own."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
SFTP = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")


@dataclass
class Sshd:
    """`name` is the device, `cache` the cache folder that its sessions have."""

    name: str
    cache: Path
    folder: Path
    process: subprocess.Popen | None = None

    def start(self, limit: int = 0, sftp: bool = True) -> None:
        """Start it; files written in its sessions may have `limit` KiB (0: no limit)."""
        daemon = shutil.which("sshd", path=PATH)
        config = self.folder / ("sshd_config" if sftp else "sshd_config_without_sftp")
        words = shlex.join([daemon, "-D", "-e", "-f", str(config)])
        limited = f"ulimit -f {limit * 2}; " if limit else ""
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", f"{limited}exec {words}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        port = int(self.name.rpartition(":")[2])
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        pytest.skip(f"sshd does not start: {(self.folder / 'log').read_text()[-200:]}")

    def stop(self) -> None:
        """End the daemon; its sessions go on."""
        self.process.terminate()
        self.process.wait()

    def processes(self, folder: Path, program: bytes) -> list[int]:
        """Ids of the processes of this program that have `folder` in their words or are in it."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                place = os.readlink(entry / "cwd")
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            first = words.split(b"\0")[0]
            if first.endswith(program) and (str(folder) in place or str(folder).encode() in words):
                found.append(int(entry.name))
        return found

    def runners(self) -> list[int]:
        """Process ids of runners that this board runs now."""
        return self.processes(self.cache, b"runner")

    def left(self) -> list[str]:
        """What is in the cache but whole files under their digests."""
        jobs = (self.cache / "graphcheck" / "jobs").glob("*")
        files = (self.cache / "graphcheck" / "files").glob("*")
        return sorted([*map(str, jobs), *(str(p) for p in files if len(p.name) != 64)])


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    """The daemon, running; the environment names the options of its clients."""
    for name in ("ssh", "scp", "ssh-keygen", "sshd"):
        if shutil.which(name, path=PATH) is None:
            pytest.skip(f"{name} is missing: apt install openssh-server")
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host_key", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    server = next((path for path in SFTP if Path(path).exists()), "internal-sftp")
    config = (
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/key.pub\nStrictModes no\nPidFile none\n"
        f"PermitRootLogin yes\nPasswordAuthentication no\n"
        f"SetEnv XDG_CACHE_HOME={folder}/cache\n"
    )
    (folder / "sshd_config").write_text(f"{config}Subsystem sftp {server}\n")
    (folder / "sshd_config_without_sftp").write_text(config)
    options = f"-F /dev/null -i {folder}/key -o IdentitiesOnly=yes -o StrictHostKeyChecking=no"
    quiet = "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    daemon = Sshd(f"ssh:{getpass.getuser()}@127.0.0.1:{port}", folder / "cache", folder)
    daemon.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHCHECK_SSH_OPTIONS", f"{options} {quiet}")
        yield daemon
    daemon.stop()
