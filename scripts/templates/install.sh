#!/bin/sh
# Installs creel @VERSION@: the program, its manual pages and its shell completions.
#
#     install.sh [--prefix DIR] [--from URL-OR-DIR] [--target TARGET]
#
# --prefix  where to install; default: ~/.local (the program is then ~/.local/bin/creel)
# --from    where the archives and SHA256SUMS are; default: the release's page
# --target  which archive; default: the one for this machine
#
# It installs nothing if the archive's checksum is not the one in SHA256SUMS. It changes no file of your shell.
set -eu

main() {
    prefix=${HOME-}/.local
    from=@REPOSITORY@/releases/download/v@VERSION@
    target=''
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix | --from | --target)
                [ $# -ge 2 ] || fail "$1 needs a value"
                case $1 in
                    --prefix) prefix=$2 ;;
                    --from) from=$2 ;;
                    --target) target=$2 ;;
                esac
                shift 2
                ;;
            *) fail "unknown option '$1'. Use --prefix DIR, --from URL-OR-DIR or --target TARGET." ;;
        esac
    done
    [ "$prefix" != /.local ] || fail "HOME is not set. Choose a folder with --prefix DIR."
    [ -n "$target" ] || target=$(this_machine)
    name=creel-@VERSION@-$target
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    get SHA256SUMS
    get "$name.tar.gz"
    check "$name.tar.gz"
    tar -xzf "$work/$name.tar.gz" -C "$work"
    place "$work/$name"
    echo "creel: installed $prefix/bin/creel"
    case ":${PATH-}:" in
        *":$prefix/bin:"*) echo "creel: start with 'creel demo'" ;;
        *) echo "creel: $prefix/bin is not on your PATH. Add it, then start with 'creel demo'." ;;
    esac
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

this_machine() {
    case $(uname -s) in
        Linux) system=unknown-linux-musl ;;
        Darwin) system=apple-darwin ;;
        *) fail "there is no archive for $(uname -s). With Rust, use: cargo install creel --locked" ;;
    esac
    case $(uname -m) in
        x86_64 | amd64) echo "x86_64-$system" ;;
        aarch64 | arm64) echo "aarch64-$system" ;;
        *) fail "there is no archive for $(uname -m). With Rust, use: cargo install creel --locked" ;;
    esac
}

# Copies a file of the release into the work folder.
get() {
    case $from in
        file://*) source=${from#file://} ;;
        *://*) source='' ;;
        *) source=$from ;;
    esac
    if [ -n "$source" ]; then
        cp "$source/$1" "$work/$1" || fail "$source has no $1."
    elif command -v curl >/dev/null 2>&1; then
        curl --proto '=https' --tlsv1.2 -fsSL "$from/$1" -o "$work/$1" || fail "cannot download $from/$1."
    elif command -v wget >/dev/null 2>&1; then
        wget -q "$from/$1" -O "$work/$1" || fail "cannot download $from/$1."
    else
        fail "install curl or wget first."
    fi
}

check() {
    wanted=$(awk -v name="$1" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
    [ -n "$wanted" ] || fail "SHA256SUMS has no line for $1. Nothing was installed."
    if command -v sha256sum >/dev/null 2>&1; then
        found=$(sha256sum "$work/$1")
    elif command -v shasum >/dev/null 2>&1; then
        found=$(shasum -a 256 "$work/$1")
    else
        fail "cannot check the archive: sha256sum and shasum are missing. Nothing was installed."
    fi
    found=${found%% *}
    [ "$found" = "$wanted" ] ||
        fail "$1 is not the released archive: its checksum is $found, not $wanted. Nothing was installed."
}

# Copies the files of the archive to their places. The program is replaced in one step, so a running one is not harmed.
place() {
    share=$prefix/share
    mkdir -p "$prefix/bin" "$share/man/man1" "$share/bash-completion/completions" \
        "$share/fish/vendor_completions.d" "$share/zsh/site-functions"
    cp "$1/creel" "$prefix/bin/.creel.new"
    chmod 755 "$prefix/bin/.creel.new"
    mv "$prefix/bin/.creel.new" "$prefix/bin/creel"
    cp "$1"/man/man1/*.1 "$share/man/man1/"
    cp "$1/completions/creel.bash" "$share/bash-completion/completions/creel"
    cp "$1/completions/creel.fish" "$share/fish/vendor_completions.d/"
    cp "$1/completions/_creel" "$share/zsh/site-functions/"
}

# The last line, so that a download that was cut off runs nothing.
main "$@"
