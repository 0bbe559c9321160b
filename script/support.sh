# Shared by the scripts beside it. Changes into the root of the repository, so that every script
# works from anywhere.

self="$(realpath "$0")"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
tools="$target/tools"
export PATH="$tools/bin:$PATH"

# The comment at the top of the calling script is its help text.
usage() {
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$self"
}

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "$(basename "$self"): $*"
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# program: sets `binary` to the program that was built last, or builds it as script/server does.
program() {
    binary="$(ls -t "$target"/{quick,release,debug}/switchboard 2>/dev/null | head -n 1 || true)"
    if [[ -z "$binary" ]]; then
        cargo build --locked --profile quick -p switchboard-cli
        binary="$target/quick/switchboard"
    fi
}

# knows BINARY SUBCOMMAND: whether the binary has the subcommand.
knows() {
    "$1" "$2" --help >/dev/null 2>&1
}

# cargo_tool NAME VERSION: makes `cargo NAME` available, by compiling it once into the target folder
# if the machine has none. Unoptimised: it compiles in a fraction of the time and is fast enough.
cargo_tool() {
    have "cargo-$1" && return
    say "cargo-$1 is not installed: compiling version $2 into $tools (once)"
    cargo install --quiet --locked --debug "cargo-$1@$2" --root "$tools" --target-dir "$tools/build"
    rm -rf "$tools/build"
}

# as_root COMMAND ...: runs it as root, through sudo if need be.
as_root() {
    if [[ "$(id -u)" == 0 ]]; then
        "$@"
    else
        have sudo || { say "please run, as root: $*"; return 1; }
        sudo "$@"
    fi
}

# install_packages PACKAGE ...: Debian packages.
install_packages() {
    (($#)) || return 0
    have apt-get || { say "please install: $*"; return 1; }
    say "installing $*"
    as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

# The browser of this machine, if it has one.
chromium() {
    local name
    for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
        [[ -n "$name" ]] && type -P "$name" && return
    done
    return 1
}
