#!/usr/bin/python3
"""The daemon under a service manager: it says when it serves, beats the watchdog, says when
it stops, and takes a socket that the manager made."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import harness
from harness import check

SCHEDD = os.path.join(harness.BIN, "hydra-schedd")
HYDRACTL = os.path.join(harness.BIN, "hydractl")


class Manager:
    """The manager's end of NOTIFY_SOCKET."""

    def __init__(self, folder, abstract):
        self.name = "@hydra-notify-%d" % os.getpid() if abstract else \
            os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name[1:] if abstract else self.name)
        self.socket.settimeout(harness.WAIT_S)

    def hear(self, what):
        """The next message that has this line."""
        while True:
            try:
                lines = self.socket.recv(4096).decode().split("\n")
            except TimeoutError:
                check("the daemon says " + what, False)
            if what in lines:
                check("the daemon says " + what, True)
                return lines

    def silent_for(self, seconds, what):
        self.socket.settimeout(seconds)
        heard = []
        try:
            while True:
                heard += self.socket.recv(4096).decode().split("\n")
        except TimeoutError:
            pass
        self.socket.settimeout(harness.WAIT_S)
        check("nothing is heard of " + what, what not in heard, heard)


def serves(address):
    done = subprocess.run([HYDRACTL, "health", "--connect", address, "--timeout", "20"],
                          capture_output=True, text=True, timeout=60)
    return done.returncode == 0


def end(process):
    process.send_signal(signal.SIGTERM)
    check("it ends with 0", process.wait(harness.WAIT_S) == 0, process.returncode)


def ready_watchdog_stopping(folder, abstract):
    manager = Manager(folder, abstract)
    address = "unix:%s/s" % folder
    process = subprocess.Popen(
        [SCHEDD, "--listen", address], env=dict(
            os.environ, NOTIFY_SOCKET=manager.name, WATCHDOG_USEC="400000"))
    try:
        lines = manager.hear("READY=1")
        check("with a status", any(line.startswith("STATUS=") for line in lines), lines)
        check("when it says so it serves", serves(address))
        for _ in range(3):
            manager.hear("WATCHDOG=1")
        process.send_signal(signal.SIGSTOP)
        manager.silent_for(1.5, "READY=1")  # takes what is on its way
        manager.silent_for(1.5, "WATCHDOG=1")
        process.send_signal(signal.SIGCONT)
        manager.hear("WATCHDOG=1")
        process.send_signal(signal.SIGTERM)
        manager.hear("STOPPING=1")
        check("it ends with 0", process.wait(harness.WAIT_S) == 0, process.returncode)
    finally:
        process.kill()
        process.wait()
        manager.socket.close()


def meant_for_another(folder):
    """Variables that name another process are not for us."""
    manager = Manager(folder, True)
    address = "unix:%s/s" % folder
    process = subprocess.Popen(
        [SCHEDD, "--listen", address], env=dict(
            os.environ, NOTIFY_SOCKET=manager.name, WATCHDOG_USEC="100000",
            WATCHDOG_PID="1", LISTEN_FDS="1", LISTEN_PID="1"))
    try:
        manager.hear("READY=1")
        check("the address is listened on, not the socket of another", serves(address))
        manager.silent_for(0.5, "WATCHDOG=1")
        end(process)
    finally:
        process.kill()
        process.wait()
        manager.socket.close()


def takes_a_socket(folder):
    """Socket activation: clients that connect before the daemon is there wait for it."""
    path = os.path.join(folder, "given")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    waits = subprocess.Popen([HYDRACTL, "job", "list", "--connect", "unix:" + path,
                              "--timeout", "60"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.1)
    command = 'exec 3<&0 < /dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
    process = subprocess.Popen(
        ["sh", "-c", command, "sh", SCHEDD, "--listen", "unix:%s/not-used" % folder],
        stdin=listener.fileno())
    try:
        out, _ = waits.communicate(timeout=harness.WAIT_S * 2)
        check("who connected early is served", waits.returncode == 0, out)
        check("the socket is served", serves("unix:" + path))
        check("it stands in for the addresses", not os.path.exists(folder + "/not-used"))
        end(process)
        check("the manager's socket stays", os.path.exists(path))
    finally:
        process.kill()
        process.wait()
        waits.kill()
        waits.wait()
        listener.close()
    os.unlink(path)


def main():
    folder = tempfile.mkdtemp(prefix="hydra-notify-")
    os.environ["ASAN_OPTIONS"] = "exitcode=99"
    try:
        ready_watchdog_stopping(folder, False)
        ready_watchdog_stopping(folder, True)
        meant_for_another(folder)
        takes_a_socket(folder)
    finally:
        shutil.rmtree(folder)
    print("%d checks passed" % harness.n_checks)


if __name__ == "__main__":
    main()
