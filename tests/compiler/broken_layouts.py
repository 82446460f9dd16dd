"""A layout that peers rely on does not compile once it is another, and the compiler says by which numbers.

Each header is compiled as it is, and with one member more at the front of one of its structures.
"""
import argparse
import pathlib
import re
import subprocess
import sys

# (header, structure, what the compiler says)
GROWN = [
    ("net/transport/shm/cell.hpp", "cell_header", "24 == 16"),
    ("net/transport/shm/cell.hpp", "piece", "32 == 24"),
    ("net/transport/types.hpp", "datagram_peer", "48 == 40"),
]


def compile_errors(options, name, text):
    source = pathlib.Path(options.folder) / f"{name}.cpp"
    source.write_text(text)
    done = subprocess.run([options.compiler, "-std=c++20", "-fsyntax-only", f"-I{options.include}", str(source)],
                          capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def wrong(options, header, structure, said):
    text = (pathlib.Path(options.include) / "cordma" / header).read_text().replace("#pragma once\n", "")
    whole = compile_errors(options, f"whole-{structure}", text)
    if whole:
        return f"{header} does not compile as it is: {whole.splitlines()[:1]}"
    grown, times = re.subn(rf"^struct {structure} {{$", f"struct {structure} {{\n  std::uint64_t grown = 0;", text,
                           flags=re.M)
    if times != 1:
        return f"{header} has {times} structures named {structure}"
    errors = compile_errors(options, f"grown-{structure}", grown)
    if "static assertion failed" not in errors or f"'{said}'" not in errors:
        return f"{header}: {structure} has grown, and the compiler says {errors.splitlines()[:3]}, not {said}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--folder", required=True)
    options = parser.parse_args()
    pathlib.Path(options.folder).mkdir(parents=True, exist_ok=True)
    found = [w for w in (wrong(options, *case) for case in GROWN) if w]
    print(f"{len(GROWN)} layouts")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
