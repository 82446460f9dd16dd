#!/usr/bin/env python3
"""Each test of a build has the label of exactly one tier. Usage: tiers.py CTEST BUILD"""
import json
import subprocess
import sys

TIERS = {"host", "core", "rdma-verbs", "rdma-programs", "rdma-machines"}


def findings(listing):
    found = []
    for test in listing["tests"]:
        labels = [label for entry in test.get("properties", []) if entry["name"] == "LABELS"
                  for label in entry["value"]]
        tiers = TIERS.intersection(labels)
        if len(tiers) != 1:
            found.append(f"{test['name']}: {len(tiers)} tiers among its labels {labels}, not 1")
    return found


def main():
    ctest, build = sys.argv[1:3]
    listing = json.loads(subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], check=True,
                                        stdout=subprocess.PIPE).stdout)
    found = findings(listing)
    print("\n".join(found))
    print(f"tiers: {len(listing['tests'])} tests, {len(found)} findings")
    return 1 if found or not listing["tests"] else 0


if __name__ == "__main__":
    sys.exit(main())
