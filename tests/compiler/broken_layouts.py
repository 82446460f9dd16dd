"""A layout that peers rely on does not compile once it is another, and the compiler says by which numbers.

Each structure whose size a header states is compiled as it is, and with one member more at its front.
"""
import argparse
import pathlib
import re
import subprocess
import sys

# A header of a wire format or of shared memory, and the number of its static_asserts on sizes of
# structures.
HEADERS = {
    "net/transport/shm/cell.hpp": 7,
    "net/transport/shm/wire.hpp": 5,
    "net/transport/types.hpp": 2,
}


def compile_errors(options, name, text):
    source = pathlib.Path(options.folder) / f"{name}.cpp"
    source.write_text(text)
    done = subprocess.run([options.compiler, "-std=c++20", "-fsyntax-only", f"-I{options.include}", str(source)],
                          capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def stated(text):
    """The structures of a header whose size it states as a number: [(name, bytes)]."""
    return [(name, int(size)) for name, size in re.findall(r"static_assert\(sizeof\((\w+)\) == (\d+)\b", text)]


def wrong(options, text, structure, size):
    grown, times = re.subn(rf"^struct {structure} {{$", r"\g<0>\n  std::uint64_t grown = 0;", text, flags=re.M)
    if times != 1:
        return f"{times} structures are named {structure}"
    errors = compile_errors(options, f"grown-{structure}", grown)
    said = [int(other) for other in re.findall(rf"'(\d+) == {size}'", errors)]
    if "static assertion failed" not in errors or not any(other > size for other in said):
        return f"{structure} has grown beyond {size} bytes, and the compiler says {errors.splitlines()[:3]}"
    return None


def check(options, header, expected):
    text = (pathlib.Path(options.include) / "cordma" / header).read_text().replace("#pragma once\n", "")
    whole = compile_errors(options, f"whole-{pathlib.Path(header).stem}", text)
    if whole:
        return [f"{header} does not compile as it is: {whole.splitlines()[:1]}"]
    layouts = stated(text)
    if len(layouts) != expected:
        return [f"{header} states the size of {len(layouts)} structures, not {expected}: {layouts}"]
    return [f"{header}: {w}" for w in (wrong(options, text, *layout) for layout in layouts) if w]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--folder", required=True)
    options = parser.parse_args()
    pathlib.Path(options.folder).mkdir(parents=True, exist_ok=True)
    found = [w for header, expected in HEADERS.items() for w in check(options, header, expected)]
    print(f"{sum(HEADERS.values())} layouts")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
