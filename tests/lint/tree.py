"""What all checks share: the files of the project, and C++ text without its comments and literals."""
import pathlib
import re
import subprocess

CODE = (".hpp", ".cpp")
# Forms that violate the rules on purpose, to test compilers.
FORMS = "tests/compiler/forms/"


def root_of(argv):
    return pathlib.Path(argv[1] if len(argv) > 1 else ".").resolve()


def names(root):
    """The project's files, relative to the root: what git has or would take; without git, what is
    there outside of build folders."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, text=True,
                                capture_output=True)
        if listed.returncode == 0:
            return sorted(n for n in listed.stdout.split("\0") if n and (root / n).is_file())
    built = re.compile(r"(\.git|\.cache|build|build-[^/]*|out)/|(.*/)?__pycache__/")
    found = (p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    return sorted(n for n in found if not built.match(n))


def files(root, suffixes=None):
    """(name, text) of every text file of the project."""
    for name in names(root):
        if suffixes and not name.endswith(suffixes):
            continue
        try:
            yield name, (root / name).read_text()
        except UnicodeDecodeError:
            continue  # not text: a fuzzer's corpus


def code(root):
    return ((name, text) for name, text in files(root, CODE) if not name.startswith(FORMS))


_LITERALS = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'', re.S)


def blank(text):
    """Comments become spaces and literals underscores; every offset and line stays where it was."""
    def fill(match):
        with_what = " " if match[0][0] == "/" else "_"
        return re.sub(r"[^\n]", with_what, match[0])
    return _LITERALS.sub(fill, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def report(check, findings):
    """Prints the findings; the exit status of a check."""
    for finding in findings:
        print(finding)
    print(f"{check}: {len(findings)} findings" if findings else f"{check}: clean")
    return 1 if findings else 0
