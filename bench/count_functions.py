#!/usr/bin/env python3
"""The functions that a tagged message of 8 bytes passes, from the public call to the write and back.

    python3 bench/count_functions.py                     builds bench-functions into build-functions first
    python3 bench/count_functions.py --build DIR         takes DIR/bin/bench-functions, which was built for it
    python3 bench/count_functions.py --path shm --all    with what does not count, and why
    python3 bench/count_functions.py --profile FILE --path tcp    of a profile that is there

bench-functions plays 64 messages between two Workers of one process, after 600 that do not count. It is built without
inlining (-O1 -fno-inline, and always_inline turned into noinline), and runs under valgrind's callgrind, which writes
down each function with the calls that led to it.

The way out: the program's call of Endpoint::tag_send, the await_transform, operator co_await and await_ready of
the same line, and the call in which the write happens, with all that they call. The write is ring_writer's store
(shm), the system call (tcp), the post to a made-up device (verbs). If the write happens in a later pass of the
reactor, the functions that lead to it there are the rest of the way.

The way back: what reactor::turn calls in a pass in which a message comes and does not call in an idle pass, what leads
there, and the await_resume of the receive. Work that such a pass does for earlier messages, as for acknowledgements,
is in it.

What counts: functions of namespace cordma with a body, each once, with parameters but without arguments of templates:
the two ways of an overload are two, the instances of a template are one. Left out are
  * functions outside of namespace cordma: std, the C library, the program, the device;
  * functions of at most 10 instructions of their own a call (--least) that call nothing that counts: those that
    return or set a member, operators, constructors that store;
  * constructors, destructors and assignments of any length that call nothing that counts;
  * functions that are called for less than every second message; they are shown apart.
The public call, the write and reactor::turn always count, except for a write outside of cordma, which is only shown.
"Within each other" is the longest path: most functions that count and are around each other.

Ends with 0; with 1 if something failed; with 77 if valgrind, a compiler, or verbs for --path verbs is missing.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from functions import callgrind, chains

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = "bench-functions"
# cordma marks some functions always_inline, which -fno-inline does not affect. Valgrind 3.19 cannot
# read the DWARF 5 of Clang 19, and fails.
FLAGS = "-O1 -gdwarf-4 -g1 -DNDEBUG -fno-inline -Dalways_inline=noinline"
CALLGRIND = ["valgrind", "--tool=callgrind", "--toggle-collect=functions::counted_*", "--separate-callers=200",
             "--separate-recs=1", "--compress-strings=yes"]
CANNOT_COUNT = 77


class Failed(Exception):
    def __init__(self, why, code=1):
        super().__init__(why)
        self.code = code


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="where bin/bench-functions is; nothing is built then")
    parser.add_argument("--path", action="append", choices=sorted(chains.GOALS), help="only this transport; repeatable")
    parser.add_argument("--profile", type=pathlib.Path, help="read this output of callgrind; needs one --path")
    parser.add_argument("--messages", type=int, default=64, help="messages in that profile (%(default)s)")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the profiles in this folder")
    parser.add_argument("--least", type=int, default=chains.LEAST, help="instructions, see above (%(default)s)")
    parser.add_argument("--all", action="store_true", help="list what is left out, with the reason")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.profile and len(arguments.path or []) != 1:
        parser.error("--profile needs one --path: what the profile is of")
    return arguments


def run(command, **more):
    done = subprocess.run(command, text=True, **more)
    if done.returncode != 0:
        said = (done.stderr or "").strip()[-2000:]
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}" + (f": {said}" if said else ""),
                     CANNOT_COUNT if done.returncode == CANNOT_COUNT else 1)
    return done.stdout


def build():
    """The folder of a build without inlining, made if need be."""
    folder = ROOT / "build-functions"
    compiler = next((c for c in ("clang++-19", "clang++", "g++") if shutil.which(c)), None)
    if compiler is None:
        raise Failed("no compiler: clang++-19, clang++ and g++ are missing", CANNOT_COUNT)
    run(["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
         f"-DCMAKE_CXX_FLAGS_RELWITHDEBINFO={FLAGS}", f"-DCMAKE_CXX_COMPILER={compiler}", "-DCORDMA_TESTS=OFF",
         "-DCORDMA_APPS=OFF", "-DCORDMA_BENCH=ON"], stdout=sys.stderr)
    run(["cmake", "--build", folder, "--target", PROGRAM, "--parallel", str(os.cpu_count())], stdout=sys.stderr)
    return folder


def profiled(program, transport, folder):
    """(profile, messages in it) of that program over that transport."""
    file = folder / f"{transport}.callgrind"
    printed = run([*CALLGRIND, f"--callgrind-out-file={file}", program, transport], stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE)
    messages = re.search(r"^(\d+) messages$", printed, re.M)
    if messages is None:
        raise Failed(f"{program} printed no number of messages: {printed[-200:]!r}")
    return file.read_text(errors="replace"), int(messages[1])


def report(transport, text, messages, arguments):
    """The two ways, as JSON's object or as text."""
    try:
        out, back = chains.ways(callgrind.parse(text), transport, messages, arguments.least)
    except (callgrind.FormatError, chains.NotFound) as e:
        raise Failed(f"{transport}: {e}") from e
    goal = chains.GOALS[transport]
    if arguments.json:
        return {"messages": messages, "out": chains.as_json(out, goal), "back": chains.as_json(back, chains.GOAL_BACK)}
    return "\n".join((chains.as_text(f"{transport} out", out, goal, arguments.all),
                      chains.as_text(f"{transport} back", back, chains.GOAL_BACK, arguments.all)))


def reports(arguments):
    if arguments.profile:
        text = arguments.profile.read_text(errors="replace")
        yield arguments.path[0], report(arguments.path[0], text, arguments.messages, arguments)
        return
    if shutil.which("valgrind") is None:
        raise Failed("valgrind is missing; on Debian: apt-get install valgrind", CANNOT_COUNT)
    program = (arguments.build or build()) / "bin" / PROGRAM
    if not program.is_file():
        raise Failed(f"{program} is missing: build its target {PROGRAM}, or leave --build out")
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for transport in arguments.path or chains.GOALS:
            try:
                text, messages = profiled(program, transport, folder)
            except Failed as e:
                if e.code != CANNOT_COUNT or arguments.path:
                    raise
                print(f"{transport}: left out: {e}", file=sys.stderr)
                continue
            yield transport, report(transport, text, messages, arguments)


def main():
    arguments = parse()
    try:
        if arguments.json:
            print(json.dumps(dict(reports(arguments)), indent=2))
        else:
            for _, text in reports(arguments):
                print(text, flush=True)
    except (Failed, OSError) as e:
        print(f"count_functions.py: {e}", file=sys.stderr)
        return e.code if isinstance(e, Failed) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
