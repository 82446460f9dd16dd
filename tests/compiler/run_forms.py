#!/usr/bin/env python3
"""Compiles and runs every program in forms/ and compares what fails with expected/<compiler>.txt.

A form fails by `compile` or by `run` (a wrong lifetime, a crash, or no end within five seconds). Both
directions of a difference fail the test: a form that newly breaks needs a rule, a form that newly works
shows that a rule can go. `--write` makes the present outcome the expectation.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FORM_TIMEOUT_S = 5
COMPILE_TIMEOUT_S = 120
# -O0 as well as -O2 break the same forms; -O0 compiles faster.
FLAGS = ["-std=c++20", "-O0", "-w", f"-I{HERE}"]
GCC_FLAGS = ["-foptimize-sibling-calls"]


def identify(compiler):
    """('gcc', 12) or ('clang', 19), as the compiler itself says."""
    source = "__clang_major__ __GNUC__"
    text = subprocess.run([compiler, "-E", "-P", "-xc++", "-"], input=source, text=True, check=True,
                          capture_output=True).stdout.split()
    return ("clang", int(text[0])) if text[0].isdigit() else ("gcc", int(text[1]))


def expectation(family, version):
    """The table of this compiler, or of the newest older one of its family."""
    tables = {int(re.search(r"\d+", p.stem)[0]): p for p in HERE.glob(f"expected/{family}-*.txt")}
    known = [v for v in tables if v <= version]
    if not known:
        sys.exit(f"no expectation for {family} {version} or older in {HERE / 'expected'}")
    return tables[max(known)]


def read_table(path):
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return {fields[0]: fields[1] for fields in lines if fields}


def precompile(compiler, family, flags, folder):
    """The harness once for all forms: it is most of what each has to compile."""
    header = folder / "form.hpp"
    header.write_text(f'#include "{HERE / "form.hpp"}"\n')
    suffix = ".gch" if family == "gcc" else ".pch"
    output = folder / f"form.hpp{suffix}"
    subprocess.run([compiler, *flags, "-xc++-header", str(header), "-o", str(output)], check=True)
    return ["-include", str(header)] if family == "gcc" else ["-include-pch", str(output)]


def outcome(compiler, flags, form, folder):
    program = folder / form.stem
    program.unlink(missing_ok=True)
    done = subprocess.run([compiler, *flags, str(form), "-o", str(program)], capture_output=True,
                          timeout=COMPILE_TIMEOUT_S)
    if done.returncode != 0:
        return "compile"
    try:
        done = subprocess.run([str(program)], capture_output=True, timeout=FORM_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "run"
    return "ok" if done.returncode == 0 else "run"


def run_all(compiler, family, folder):
    flags = FLAGS + (GCC_FLAGS if family == "gcc" else [])
    flags += precompile(compiler, family, flags, folder)
    forms = sorted(HERE.glob("forms/*.cpp"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(lambda form: outcome(compiler, flags, form, folder), forms)
        return {form.stem: o for form, o in zip(forms, outcomes)}


def compare(found, expected, table):
    differences = 0
    for form in sorted(expected.keys() - found.keys()):
        print(f"{form}: listed in {table.name}, but there is no such form")
        differences += 1
    for form, outcome_now in found.items():
        wanted = expected.get(form, "ok")
        if outcome_now == wanted:
            continue
        differences += 1
        if outcome_now == "ok":
            print(f"{form}: works now (was: {wanted}). A rule may go: see tests/compiler/README.md")
        else:
            print(f"{form}: fails at {outcome_now} (was: {wanted}). A rule is needed against it")
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="where to build")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    options.folder.mkdir(parents=True, exist_ok=True)

    family, version = identify(options.compiler)
    found = run_all(options.compiler, family, options.folder)
    broken = {form: how for form, how in found.items() if how != "ok"}
    print(f"{family} {version}: {len(found)} forms, {len(broken)} fail")
    if options.write:
        table = HERE / "expected" / f"{family}-{version}.txt"
        table.write_text("".join(f"{form} {how}\n" for form, how in sorted(broken.items())))
        return 0
    table = expectation(family, version)
    differences = compare(found, read_table(table), table)
    if differences:
        print(f"{differences} differ from {table.name}; if that is right, rerun with --write")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
