#!/usr/bin/env python3
"""The code is laid out as .clang-format says. Usage: format.py [--fix] [ROOT]"""
import shutil
import subprocess
import sys

import tree

SKIPPED = 77
# One version only: two versions disagree about the same file.
FORMATTER = "clang-format-19"


def main():
    arguments = [a for a in sys.argv if a != "--fix"]
    root = tree.root_of(arguments)
    if not shutil.which(FORMATTER):
        print(f"skipped: no {FORMATTER}; on Debian: apt-get install {FORMATTER}")
        return SKIPPED
    names = [name for name, _ in tree.files(root, tree.CODE)]
    how = ["-i"] if len(arguments) != len(sys.argv) else ["--dry-run", "--Werror", "--ferror-limit=3"]
    done = subprocess.run([FORMATTER, "--style=file", *how, *names], cwd=root)
    if done.returncode != 0:
        print("to lay the code out: python3 tests/lint/format.py --fix")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
