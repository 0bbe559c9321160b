"""Plants the faults of faults.toml into a copy of the repository, one at a time; see script/mutants."""

import os
import pathlib
import subprocess
import sys
import time

try:
    import tomllib
except ImportError:
    sys.exit("mutants: Python 3.11 or newer is needed")

SUITES = ["switchboard-engine", "switchboard-core", "switchboard-store", "switchboard-testkit"]
# Longer than all of it takes without a fault: one that keeps something busy for ever is noticed, too.
PATIENCE = 1200


def main(folder, arguments):
    faults = tomllib.loads(pathlib.Path("tests/mutants/faults.toml").read_text())["fault"]
    seeds = "150"
    if "--seeds" in arguments:
        place = arguments.index("--seeds")
        seeds = arguments[place + 1]
        del arguments[place : place + 2]
    listing = "--list" in arguments
    words = [word for word in arguments if not word.startswith("-")]
    if words:
        faults = [fault for fault in faults if any(word in fault["name"] for word in words)]
    if listing:
        print("\n".join(fault["name"] for fault in faults))
        return 0
    tree = pathlib.Path(folder) / "tree"
    copy(tree)
    environment = dict(
        os.environ,
        SWITCHBOARD_SEEDS=seeds,
        CARGO_TARGET_DIR=str(pathlib.Path(folder) / "build"),
        CARGO_PROFILE_DEV_DEBUG="false",
    )
    missed = []
    for number, fault in enumerate(faults, 1):
        print(f"[{number}/{len(faults)}] {fault['name']} ... ", end="", flush=True)
        began = time.monotonic()
        noticed = try_fault(tree, fault, environment)
        print(f"{noticed or 'NOT NOTICED'} ({time.monotonic() - began:.0f} s)", flush=True)
        if not noticed:
            missed.append(fault["name"])
    print(f"mutants: {len(faults) - len(missed)} of {len(faults)} noticed")
    for name in missed:
        print(f"  not noticed: {name}")
    return 1 if missed else 0


def copy(tree):
    """What is committed, with the dates of files that have not changed since the last time."""
    if not tree.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", ".", str(tree)], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(["git", "-C", str(tree), "fetch", "--quiet", "origin"], check=True)
    subprocess.run(["git", "-C", str(tree), "checkout", "--quiet", "--force", "--detach", head], check=True)


def try_fault(tree, fault, environment):
    """Who noticed the fault; none if nobody did."""
    path = tree / fault["file"]
    before = path.read_text()
    after = before
    for find, replace in [(fault["find"], fault["replace"]), *fault.get("also", [])]:
        if after.count(find) != 1:
            sys.exit(f"mutants: what is to be replaced stands {after.count(find)} times in {fault['file']}: {find}")
        after = after.replace(find, replace)
    path.write_text(after)
    try:
        for suite in SUITES:
            build = ["cargo", "test", "--locked", "--quiet", "-p", suite, "--no-run"]
            built = subprocess.run(build, cwd=tree, env=environment, capture_output=True, text=True)
            if built.returncode:
                sys.exit(f"mutants: {fault['name']}: it does not compile\n{built.stderr[-3000:]}")
            command = ["cargo", "test", "--locked", "--quiet", "-p", suite, "--lib", "--tests"]
            try:
                run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return f"{suite}, which did not end"
            if run.returncode:
                return suite
        return None
    finally:
        path.write_text(before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
