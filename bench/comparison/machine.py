"""The facts without which a figure means nothing: machine, kernel, load, versions, commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .programs import Programs, found_in

BUSY_LOAD = 0.5  # a machine above this one-minute load average is not quiet
QUIET_LIMIT_S = 180  # longest wait; the average falls from 4 to 0.5 in 125 s


def read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def said(command: list[str], folder: Path | None = None) -> str | None:
    """The first line a command prints, or None when it fails or is not there."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def from_proc(path: str, key: str) -> str | None:
    found = re.search(rf"^{re.escape(key)}\s*:\s*(.*)$", read(path) or "", re.MULTILINE)
    return found.group(1) if found else None


def load() -> float:
    return os.getloadavg()[0]


def wait_until_quiet(load_now: Callable[[], float] = load,
                     pause: Callable[[float], None] = time.sleep) -> bool:
    """Until the load is below BUSY_LOAD, or QUIET_LIMIT_S; whether it is. On a terminal the load is
    shown as it falls."""
    shown = False
    for left in range(QUIET_LIMIT_S, -1, -1):
        now = load_now()
        if now < BUSY_LOAD or left == 0:
            break
        if sys.stderr.isatty() or not shown:
            start, end = ("\r\033[K", "") if sys.stderr.isatty() else ("", "\n")
            print(f"{start}load {now:.2f}: waiting until it is below {BUSY_LOAD:g}, {left} s at "
                  "most; --no-wait skips it", end=end, file=sys.stderr, flush=True)
        shown = True
        pause(1)
    if shown and sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return now < BUSY_LOAD


def machine(cpus: tuple[int, int]) -> dict:
    flags = (from_proc("/proc/cpuinfo", "flags") or "").split()
    return {
        "cpu": from_proc("/proc/cpuinfo", "model name") or platform.machine(),
        "cpus_online": os.cpu_count(),
        "cpus_used": list(cpus),
        "memory": from_proc("/proc/meminfo", "MemTotal"),
        "virtual": "hypervisor" in flags,
        "kernel": platform.release(),
        "system": from_os_release(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "load_at_start": load(),
    }


def from_os_release() -> str | None:
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', read("/etc/os-release") or "", re.MULTILINE)
    return found.group(1) if found else None


def versions(programs: Programs) -> dict:
    ucx = programs.find("ucx_info")
    before = found_in(programs.beside, "cordma-perf")
    perf = programs.find("cordma-perf")
    return {
        "cordma-perf": said([perf, "--version"]) if perf else None,
        "before": said([before, "--version"]) if before else None,
        **{package: package_version(package) for package in ("sockperf", "qperf", "libfabric-bin")},
        "ucx": ucx_version(said([ucx, "-v"]) or "") if ucx else None,
        "ucx_prefix": str(programs.ucx) if programs.ucx else None,
        **build_facts(programs.build),
    }


def ucx_version(first_line: str) -> str | None:
    """"# Version 1.13.1" of the old ones, "# Library version: 1.23.0" of the new."""
    found = re.search(r"\d+\.\d+(\.\d+)?", first_line)
    return found.group() if found else None


def package_version(package: str) -> str | None:
    return said(["dpkg-query", "-W", "-f", "${Version}", package])


def build_facts(build: Path | None) -> dict:
    """Compiler and build type, from CMake's cache."""
    cache = read(str(build / "CMakeCache.txt")) if build else None
    facts = {}
    for key, name in (("CMAKE_CXX_COMPILER", "compiler"), ("CMAKE_BUILD_TYPE", "build_type")):
        found = re.search(rf"^{key}:[A-Z]+=(.*)$", cache or "", re.MULTILINE)
        facts[name] = found.group(1) if found else None
    if facts["compiler"]:
        facts["compiler"] = said([facts["compiler"], "--version"]) or Path(facts["compiler"]).name
    return facts


def commit(root: Path) -> dict:
    changed = said(["git", "status", "--porcelain", "--untracked-files=no"], root)
    return {"commit": said(["git", "rev-parse", "HEAD"], root), "changed": changed is not None}
