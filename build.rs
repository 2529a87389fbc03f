//! Records which commit the program is built from, for `creel --version`.
//!
//! A package from a registry has no repository, but cargo writes the commit into
//! `.cargo_vcs_info.json`. Packagers that build from an archive can set `CREEL_COMMIT` ("3ad36f5
//! 2026-11-15"). Without any of these, only the version is known.

use std::{env, path::Path, process::Command};

/// How many digits of a commit are shown.
const DIGITS: usize = 7;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CREEL_COMMIT");
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".to_owned());
    let folder = Path::new(&folder);
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let commit = given()
        .or_else(|| packaged(folder))
        .or_else(|| checked_out(folder, is_debug));
    let about = match (commit, is_debug) {
        (Some(commit), false) => format!(" ({commit})"),
        // A debug build is made many times between two commits, and a new commit alone does not
        // build it again.
        (Some(commit), true) => format!(" ({commit} or later, debug build)"),
        (None, false) => String::new(),
        (None, true) => " (debug build)".to_owned(),
    };
    println!("cargo:rustc-env=BUILD_VERSION={version}{about}");
}

/// The commit that a packager names.
fn given() -> Option<String> {
    env::var("CREEL_COMMIT")
        .ok()
        .map(|commit| commit.trim().to_owned())
        .filter(|commit| !commit.is_empty())
}

/// The commit of a package from a registry.
fn packaged(folder: &Path) -> Option<String> {
    let path = folder.join(".cargo_vcs_info.json");
    let text = std::fs::read_to_string(&path).ok()?;
    println!("cargo:rerun-if-changed={}", path.display());
    let (_, after) = text.split_once("\"sha1\"")?;
    let commit = after.split('"').nth(1)?;
    let is_commit = commit.len() >= DIGITS && commit.chars().all(|digit| digit.is_ascii_hexdigit());
    is_commit.then(|| commit[..DIGITS].to_owned())
}

/// The commit of the repository that this folder is the top of. A repository around it is another
/// project's.
fn checked_out(folder: &Path, is_debug: bool) -> Option<String> {
    let top = git(folder, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != folder.canonicalize().ok()? {
        return None;
    }
    if !is_debug {
        watch(folder);
    }
    git(
        folder,
        &[
            "show",
            "--no-patch",
            "--abbrev=7",
            "--format=%h %cs",
            "HEAD",
        ],
    )
}

/// Builds again after a commit, a checkout, or a move of the branch. Cargo would always build again
/// for a file that does not exist.
fn watch(folder: &Path) {
    let branch = git(folder, &["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs", "logs/HEAD"]
        .into_iter()
        .chain(branch.as_deref())
    {
        let Some(path) = git(folder, &["rev-parse", "--git-path", name]) else {
            continue;
        };
        let path = folder.join(path);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
}

/// What git prints, if it succeeds.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
