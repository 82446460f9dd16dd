"""What all checks share: the files of the project, and C++ text without its comments and literals."""
import pathlib
import re

CODE = (".hpp", ".cpp")
# Forms that break the rules on purpose, as a test of compilers.
FORMS = "tests/compiler/forms/"


def root_of(argv):
    return pathlib.Path(argv[1] if len(argv) > 1 else ".").resolve()


def files(root, suffixes=None):
    """(path relative to the root, text) of every text file of the project, build folders left out."""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        top = name.split("/")[0]
        if top in (".git", "build", "out", ".cache") or top.startswith("build-") or "__pycache__" in name:
            continue
        if not path.is_file() or (suffixes and path.suffix not in suffixes):
            continue
        try:
            yield name, path.read_text()
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
