#!/usr/bin/env python3
"""Writes every complete program of a README to a file of its own and prints the files' names, separated
by semicolons. Usage: readme_programs.py README.md FOLDER"""
import pathlib
import re
import sys


def main():
    readme, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    text = readme.read_text()
    written = []
    for block in re.finditer(r"^```cpp\n(.*?)^```", text, re.S | re.M):
        if "int main(" not in block[1]:
            continue
        path = folder / f"readme_{len(written) + 1}.cpp"
        # Errors name the line of the README.
        first_line = text.count("\n", 0, block.start(1)) + 1
        program = f'#line {first_line} "{readme}"\n{block[1]}'
        if not path.exists() or path.read_text() != program:
            path.write_text(program)
        written.append(str(path))
    print(";".join(written), end="")


if __name__ == "__main__":
    main()
