"""What a connection's service does not carry must not compile, and what it carries must.

Every cell of the matrix of endpoints and operations is compiled alone: a legal one is compiled, an
illegal one is refused, and for its own sake (the compiler speaks of the call, and of nothing else).
So is what would use a buffer or an operation again that has gone elsewhere.
"""
import argparse
import concurrent.futures
import itertools
import pathlib
import re
import subprocess
import sys

CALLS = {
    "send": "e.send(s)",
    "send_imm": "e.send_imm(s, 1)",
    "recv": "e.recv(s)",
    "write": "e.write(r, s)",
    "write_imm": "e.write_imm(r, s, 1)",
    "read": "e.read(r, s)",
    "fetch_add": "e.fetch_add(r, 1)",
    "compare_swap": "e.compare_swap(r, 1, 2)",
    "flush": "e.flush()",
    "send_to": "e.send_to({}, s)",
    "recv_from": "e.recv_from(s)",
}
CONNECTED = {"send", "send_imm", "recv", "write", "write_imm"}
LEGAL = {
    "rc_endpoint": CONNECTED | {"read", "fetch_add", "compare_swap", "flush"},
    "uc_endpoint": CONNECTED,
    "DatagramEndpoint": {"send_to", "recv_from"},
}
HEADERS = """#include <cordma/net/datagram.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/net/typed_endpoint.hpp>
"""
TEMPLATE = """void use(cordma::{type}& e, const cordma::Slice& s, const cordma::RemoteSlice& r) {{
  static_cast<void>(s);
  static_cast<void>(r);
  static_cast<void>({call});
}}
"""
REFUSAL = re.compile(r"no matching (member )?function|invalid reference to function"
                     r"|no member named|has no member named")


def precompile(options):
    """The headers once for all cells: they are nearly all that each has to compile."""
    header = pathlib.Path(options.folder) / "headers.hpp"
    header.write_text(HEADERS)
    subprocess.run([options.compiler, "-std=c++20", f"-I{options.include}", "-xc++-header", str(header),
                    "-o", f"{header}.pch"], check=True)
    return f"{header}.pch"


def compiles(options, name, text):
    source = pathlib.Path(options.folder) / f"{name}.cpp"
    source.write_text(text)
    command = [options.compiler, "-std=c++20", "-fsyntax-only", f"-I{options.include}",
               "-include-pch", options.headers, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    return done.returncode == 0, errors


def wrong(options, cell):
    kind, op = cell
    legal = op in LEGAL[kind]
    ok, errors = compiles(options, f"{kind}-{op}", TEMPLATE.format(type=kind, call=CALLS[op]))
    if legal:
        return None if ok else f"{kind}: {op} should compile: {errors[:1]}"
    if ok:
        return f"{kind}: {op} compiles, and should not"
    if len(errors) != 1 or not REFUSAL.search(errors[0]):
        return f"{kind}: {op} is refused for another reason: {errors[:2]}"
    return None


# A buffer has one owner at a time, and an operation made for one kind of use is not used for
# another.
REUSES = {
    "copied buffer": "cordma::Buffer use(cordma::Buffer& b) { return b; }",
    "copied message": "cordma::Message use(cordma::Message& m) { return m; }",
    "sent and kept": "void use(cordma::Endpoint& e, cordma::Buffer& b) { (void)e.send(b, 1); }",
    "message again":
        "void use(cordma::message_operation& o, const cordma::Slice& s) { o.again(s); }",
    "atomic again":
        "void use(cordma::atomic_operation& o, const cordma::Slice& s) { o.again(s); }",
}
REUSE_REFUSAL = re.compile(r"deleted|invalid reference to function|no matching (member )?function")


def wrong_reuse(options, what):
    ok, errors = compiles(options, what.replace(" ", "-"), REUSES[what] + "\n")
    if ok:
        return f"{what}: compiles, and should not"
    if not all(REUSE_REFUSAL.search(e) for e in errors):
        return f"{what}: is refused for another reason: {errors[:2]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--folder", required=True)
    options = parser.parse_args()
    pathlib.Path(options.folder).mkdir(parents=True, exist_ok=True)
    options.headers = precompile(options)
    cells = list(itertools.product(LEGAL, CALLS))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [w for w in pool.map(lambda c: wrong(options, c), cells) if w]
        found += [w for w in pool.map(lambda r: wrong_reuse(options, r), REUSES) if w]
    # A datagram port is not a connection: no call may treat it as one.
    text = "cordma::typed_endpoint<cordma::transport::service::ud>* port;\n"
    ok, errors = compiles(options, "typed-ud", text)
    if ok or "constraint" not in errors[0]:
        found.append(f"typed_endpoint<ud> is not refused as it should be: {errors[:1]}")
    print(f"{len(cells)} cells, {sum(len(v) for v in LEGAL.values())} of them legal")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
