//! The package, the manifest, the scripts and the workflows. `scripts/dist test` checks what only a
//! release needs: archives, the installer and the recipes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::project::{Project, Ran};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn ran(command: &mut Command) -> Ran {
    Ran::of(&command.stdin(Stdio::null()).output().expect("it starts"))
}

// The package

#[test]
fn the_package_has_what_is_needed_and_nothing_else() {
    let listed = ran(Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .current_dir(root()));
    assert_eq!(listed.code, 0, "{}", listed.err);
    let files: Vec<&str> = listed
        .out
        .lines()
        .filter(|file| *file != ".cargo_vcs_info.json")
        .collect();
    let texts = [
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "THIRD-PARTY.md",
        "LICENSE",
        "LICENSE-APACHE",
        "LICENSE-MIT",
    ];
    let build = [
        "Cargo.toml",
        "Cargo.toml.orig",
        "Cargo.lock",
        "build.rs",
        "config.example.yaml",
    ];
    for file in &files {
        let is_source =
            file.starts_with("src/") && Path::new(file).extension().is_some_and(|it| it == "rs");
        let is_asset = file.starts_with("assets/") && !file.starts_with("assets/pictures/");
        assert!(
            is_source || is_asset || texts.contains(file) || build.contains(file),
            "{file} is not needed"
        );
    }
    for file in texts.iter().chain(&build) {
        assert!(files.contains(file), "{file} is missing");
    }
    let bytes: u64 = files
        .iter()
        .filter_map(|file| fs::metadata(root().join(file)).ok())
        .map(|meta| meta.len())
        .sum();
    assert!(bytes < 8 << 20, "{bytes} bytes");
}

/// Files that the source includes are in the package: it could not be built otherwise.
#[test]
fn the_package_has_every_file_that_the_source_includes() {
    let listed = ran(Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .current_dir(root()));
    let files: Vec<&str> = listed.out.lines().collect();
    let include =
        regex::Regex::new(r#"include_(?:str|bytes)!\(\s*"([^"]+)""#).expect("a regular expression");
    let mut included = 0;
    for file in files.iter().filter(|file| file.starts_with("src/")) {
        // Tests of the package are not run from it.
        let is_test = file.contains("/tests/") || file.ends_with("/tests.rs");
        let text = fs::read_to_string(root().join(file)).expect("a source");
        let text = text
            .split("\n#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        for found in include.captures_iter(text).filter(|_| !is_test) {
            let path = root()
                .join(file)
                .parent()
                .expect("a folder")
                .join(&found[1])
                .canonicalize()
                .expect("it exists");
            let path = path
                .strip_prefix(root().canonicalize().expect("it exists"))
                .expect("inside")
                .to_str()
                .expect("UTF-8")
                .to_owned();
            assert!(files.contains(&path.as_str()), "{file} includes {path}");
            included += 1;
        }
    }
    assert!(included > 15, "{included}");
}

#[test]
fn the_manifest_is_complete() {
    let args = [
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ];
    let all: Value =
        serde_json::from_str(&ran(Command::new(env!("CARGO")).args(args).current_dir(root())).out)
            .expect("JSON");
    let package = &all["packages"][0];
    for key in [
        "description",
        "license",
        "repository",
        "homepage",
        "documentation",
        "readme",
        "rust_version",
    ] {
        assert!(
            package[key].as_str().is_some_and(|text| !text.is_empty()),
            "{key}"
        );
    }
    assert!(
        package["keywords"]
            .as_array()
            .is_some_and(|all| (1..=5).contains(&all.len()))
    );
    assert!(
        package["categories"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
    // One place defines the addresses: no other file of the project names them.
    let address = package["repository"]
        .as_str()
        .expect("text")
        .split("//")
        .nth(1)
        .expect("a URL");
    let tracked = ran(Command::new("git")
        .args(["grep", "-lF", address])
        .current_dir(root()));
    if tracked.code == 0 {
        assert_eq!(tracked.out, "Cargo.toml\n");
    }
    // The texts name the Rust that the manifest names.
    let rust = format!(
        "Rust {} or newer",
        package["rust_version"].as_str().expect("text")
    );
    for file in ["README.md", "docs/first-session.md", "test"] {
        assert!(
            fs::read_to_string(root().join(file))
                .expect("a text")
                .contains(&rust),
            "{file}: {rust}"
        );
    }
}

// Scripts and workflows

fn shell_scripts() -> Vec<PathBuf> {
    let folder = root().join("scripts");
    let templates = fs::read_dir(folder.join("templates")).expect("templates");
    let entries = fs::read_dir(folder)
        .expect("scripts")
        .chain(templates)
        .map(|entry| entry.expect("an entry").path());
    let others =
        ["test", ".ci/run", "assets/demo/tests/run-tests.sh"].map(|script| root().join(script));
    let is_shell =
        |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.starts_with("#!/bin/sh"));
    entries.chain(others).filter(is_shell).collect()
}

#[test]
fn the_shell_scripts_are_valid() {
    let scripts = shell_scripts();
    assert!(scripts.len() >= 8, "{scripts:?}");
    for script in &scripts {
        let checked = ran(Command::new("sh").arg("-n").arg(script));
        assert_eq!(
            (checked.code, checked.err.as_str()),
            (0, ""),
            "{}",
            script.display()
        );
    }
    if Command::new("shellcheck").arg("--version").output().is_ok() {
        let checked = ran(Command::new("shellcheck")
            .args(["--exclude", "SC1091"])
            .args(&scripts));
        assert_eq!(checked.code, 0, "{}", checked.out);
    }
}

/// Packs this creel for every target, and installs it with npm, with install.sh, and as
/// cargo-binstall does.
#[test]
#[expect(clippy::print_stderr, reason = "a test says what it skips")]
fn a_release_can_be_packed_installed_and_described() {
    let tested =
        ran(Command::new(root().join("scripts/dist")).args(["test", env!("CARGO_BIN_EXE_creel")]));
    assert_eq!(tested.code, 0, "{}{}", tested.out, tested.err);
    if tested.out.contains("npm is missing") {
        eprintln!("{}", tested.out.trim());
        return;
    }
    for way in ["npm", "install.sh"] {
        assert!(
            tested
                .out
                .lines()
                .any(|line| line.trim().starts_with(way) && line.contains("demo in")),
            "{}",
            tested.out
        );
    }
}

/// The commands of a workflow's steps.
fn steps(workflow: &Value) -> Vec<String> {
    let jobs = workflow["jobs"].as_object().expect("jobs").values();
    let steps = jobs.flat_map(|job| job["steps"].as_array().expect("steps"));
    steps
        .filter_map(|step| step["run"].as_str())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_workflows_only_call_scripts_of_the_repository() {
    for name in ["ci", "release"] {
        let text = fs::read_to_string(root().join(format!(".github/workflows/{name}.yml")))
            .expect("a workflow");
        let workflow: Value =
            serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let steps = steps(&workflow);
        assert!(steps.len() >= 4, "{steps:?}");
        for step in steps {
            assert!(
                !step.contains('\n'),
                "a step of several lines belongs into a script: {step}"
            );
            let program = step.split_whitespace().next().expect("a command");
            if ["rustup", "cargo", "gh"].contains(&program) {
                continue;
            }
            assert!(
                root().join(program).exists(),
                "{name}: {program} does not exist"
            );
            if program == "scripts/dist" {
                let verb = step.split_whitespace().nth(1).expect("a command");
                let usage = fs::read_to_string(root().join(program)).expect("the script");
                assert!(
                    usage.contains(&format!("#     scripts/dist {verb}")),
                    "{name}: scripts/dist has no {verb}"
                );
            }
        }
        if name == "release" {
            let targets = ran(Command::new(root().join("scripts/dist")).arg("targets")).out;
            assert!(!targets.is_empty());
            for target in targets.lines() {
                assert!(text.contains(&format!("target: {target},")), "{target}");
            }
        }
    }
}

// The commit

/// What build.rs says in a folder, built as a program of its own.
struct BuildScript {
    program: PathBuf,
}

impl BuildScript {
    fn compiled(project: &Project) -> Self {
        let program = project.root().join("build-script");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut compiler = Command::new(rustc);
        compiler
            .args(["--edition", "2024", "-o"])
            .arg(&program)
            .arg(root().join("build.rs"));
        let built = ran(&mut compiler);
        assert_eq!(built.code, 0, "{}", built.err);
        Self { program }
    }

    fn says(&self, folder: &Path, profile: &str, given: Option<&str>) -> (String, Vec<String>) {
        let mut command = Command::new(&self.program);
        command
            .env("CARGO_MANIFEST_DIR", folder)
            .env("CARGO_PKG_VERSION", "1.2.3")
            .env("PROFILE", profile);
        command
            .env_remove("CREEL_COMMIT")
            .envs(given.map(|given| ("CREEL_COMMIT", given)))
            .current_dir(folder);
        let said = ran(&mut command).out;
        let find = |start: &str| {
            said.lines()
                .filter_map(|line| line.strip_prefix(start))
                .map(str::to_owned)
                .collect()
        };
        let version: Vec<String> = find("cargo:rustc-env=BUILD_VERSION=");
        (version.concat(), find("cargo:rerun-if-changed="))
    }
}

#[test]
fn the_version_has_the_commit_of_a_checkout_a_package_or_a_packager() {
    let project = Project::new();
    let script = BuildScript::compiled(&project);
    let bare = project.root().join("bare");
    fs::create_dir(&bare).expect("a folder");
    assert_eq!(script.says(&bare, "release", None).0, "1.2.3");
    assert_eq!(
        script.says(&bare, "release", Some("abcdef0 2026-01-02")).0,
        "1.2.3 (abcdef0 2026-01-02)"
    );
    assert_eq!(script.says(&bare, "debug", None).0, "1.2.3 (debug build)");
    project.write(
        "package/.cargo_vcs_info.json",
        "{\n  \"git\": {\n    \"sha1\": \"0123456789abcdef\"\n  },\n  \"path_in_vcs\": \"\"\n}",
    );
    assert_eq!(
        script
            .says(&project.root().join("package"), "release", None)
            .0,
        "1.2.3 (0123456)"
    );
    let checkout = project.root().join("checkout");
    fs::create_dir_all(checkout.join("below")).expect("a folder");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args)
            .current_dir(&checkout);
        let done = ran(command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1"));
        assert_eq!(done.code, 0, "{}", done.err);
        done.out.trim_end().to_owned()
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    let commit = git(&["show", "-s", "--abbrev=7", "--format=%h %cs"]);
    let (version, watched) = script.says(&checkout, "release", None);
    assert_eq!(version, format!("1.2.3 ({commit})"));
    let branch = git(&["symbolic-ref", "HEAD"]);
    for file in ["HEAD", &branch] {
        assert!(
            watched
                .iter()
                .any(|path| path.ends_with(&format!(".git/{file}"))),
            "{file}: {watched:?}"
        );
    }
    assert!(
        watched
            .iter()
            .all(|path| checkout.join(path).exists() || path == "build.rs"),
        "{watched:?}"
    );
    let (version, watched) = script.says(&checkout, "debug", None);
    assert_eq!(version, format!("1.2.3 ({commit} or later, debug build)"));
    assert_eq!(
        watched,
        ["build.rs"],
        "a commit alone does not build a debug build again"
    );
    assert_eq!(
        script.says(&checkout.join("below"), "release", None).0,
        "1.2.3",
        "a repository around it is another project's"
    );
}
