//! Finds the tests of a project: the command that a developer of this toolchain would type.
//!
//! `run_tests` runs the command of the project's folder; `creel init` also looks at the parts of a
//! monorepo. Reads files only.
//!
//! # Invariants
//! - A command is found only if there is something to test with it: a test script, a test target, a
//!   test folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that contain parts of a monorepo, besides the project's own.
const FOLDERS_OF_PARTS: [&str; 7] = [
    "packages", "apps", "services", "crates", "libs", "modules", "projects",
];
/// Folders without tests of the project's own.
const FOREIGN: [&str; 20] = [
    "node_modules",
    "target",
    "vendor",
    "dist",
    "build",
    "out",
    "coverage",
    "venv",
    "env",
    "third_party",
    "example",
    "examples",
    "demo",
    "docs",
    "fixtures",
    "testdata",
    "test",
    "tests",
    "tmp",
    "bin",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestSuite {
    /// What indicates it.
    pub by: &'static str,
    pub command: String,
    /// The program of the command.
    pub program: String,
}

/// One folder, and whether a program is installed.
#[derive(Clone, Copy)]
struct TestedFolder<'a> {
    folder: &'a Path,
    /// The project that the folder is a part of.
    root: &'a Path,
    finds: &'a dyn Fn(&str) -> bool,
}

/// The tests of this folder.
pub fn find(folder: &Path, finds: &dyn Fn(&str) -> bool) -> Option<TestSuite> {
    find_in(folder, folder, finds)
}

fn find_in(root: &Path, folder: &Path, finds: &dyn Fn(&str) -> bool) -> Option<TestSuite> {
    let place = TestedFolder {
        folder,
        root,
        finds,
    };
    place
        .rust()
        .or_else(|| place.node())
        .or_else(|| place.deno())
        .or_else(|| place.python())
        .or_else(|| place.named("go.mod", "go.mod", "go test ./..."))
        .or_else(|| place.java())
        .or_else(|| place.ruby())
        .or_else(|| place.php())
        .or_else(|| place.dotnet())
        .or_else(|| place.named("mix.exs", "mix.exs", "mix test"))
        .or_else(|| place.cmake())
        .or_else(|| place.recipes())
}

/// The checks of a project: the tests of its folder, and of each part that the first does not
/// cover.
pub fn checks(folder: &Path, finds: &dyn Fn(&str) -> bool) -> Vec<String> {
    let root = find(folder, finds);
    let covers = |suite: &TestSuite| {
        let is_general = |by| by == MAKEFILE || by == JUSTFILE;
        root.as_ref()
            .is_some_and(|root| root.by == suite.by || is_general(root.by))
    };
    let parts = parts(folder)
        .into_iter()
        .filter_map(|part| Some((find_in(folder, &folder.join(&part), finds)?, part)));
    let parts = parts.filter(|(suite, _)| !covers(suite));
    let parts = parts.map(|(suite, part)| format!("cd {} && {}", quoted(&part), suite.command));
    root.iter()
        .map(|root| root.command.clone())
        .chain(parts)
        .collect()
}

/// The folders that may be parts of a monorepo, relative to the project.
fn parts(project: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| {
        let entries = fs::read_dir(project.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
        let own = names.filter(|name| !name.starts_with('.') && !FOREIGN.contains(&name.as_str()));
        let mut found: Vec<PathBuf> = own.map(|name| folder.join(name)).collect();
        found.sort();
        found
    };
    let holders = FOLDERS_OF_PARTS
        .iter()
        .map(Path::new)
        .filter(|holder| project.join(holder).is_dir());
    inside(Path::new(""))
        .into_iter()
        .chain(holders.flat_map(inside))
        .collect()
}

fn quoted(part: &Path) -> String {
    let text = part.to_string_lossy();
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let text = if text.starts_with('-') {
        format!("./{text}").into()
    } else {
        text
    };
    if is_plain {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

pub const PYTEST: &str = "pytest configuration";
const MAKEFILE: &str = "Makefile";
const JUSTFILE: &str = "justfile";

fn suite(by: &'static str, command: &str) -> TestSuite {
    let program = command
        .split(' ')
        .find(|word| !word.contains('='))
        .unwrap_or_default()
        .to_owned();
    TestSuite {
        by,
        command: command.to_owned(),
        program,
    }
}

impl TestedFolder<'_> {
    fn has(self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    fn text(self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// The names in a folder.
    fn names(self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    fn named(self, file: &str, by: &'static str, command: &str) -> Option<TestSuite> {
        self.has(file).then(|| suite(by, command))
    }

    fn rust(self) -> Option<TestSuite> {
        let manifest = self.text("Cargo.toml");
        let has_members = manifest.contains("[workspace]") && manifest.contains("[package]");
        let command = if has_members {
            "cargo test --workspace"
        } else {
            "cargo test"
        };
        self.named("Cargo.toml", "Cargo.toml", command)
    }

    /// A text without comments.
    fn settings(self, name: &str) -> String {
        let text = self.text(name);
        text.lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Whether this folder, or the project around it, has one of these files.
    fn has_around(self, names: &[&str]) -> bool {
        names
            .iter()
            .any(|name| self.has(name) || self.root.join(name).exists())
    }

    /// A test script other than the one from `npm init`, which always fails.
    fn node(self) -> Option<TestSuite> {
        let package: serde_json::Value =
            serde_json::from_str(&self.text("package.json")).unwrap_or_default();
        let script = package["scripts"]["test"].as_str().unwrap_or_default();
        let has_script = !script.trim().is_empty() && !script.contains("no test");
        let is_workspace =
            !has_script && (self.has("pnpm-workspace.yaml") || package["workspaces"].is_array());
        if !has_script && !is_workspace {
            return None;
        }
        let manager = package["packageManager"].as_str().unwrap_or_default();
        let uses = |name: &str, locks: &[&str]| {
            manager.starts_with(&format!("{name}@")) || self.has_around(locks)
        };
        let (one, all) = if uses("pnpm", &["pnpm-lock.yaml", "pnpm-workspace.yaml"]) {
            ("pnpm test", "pnpm -r test")
        } else if uses("yarn", &["yarn.lock"]) {
            ("yarn test", "yarn workspaces run test")
        } else if uses("bun", &["bun.lock", "bun.lockb"]) {
            ("bun run test", "bun run --filter '*' test")
        } else {
            ("npm test", "npm test --workspaces --if-present")
        };
        // Without this variable, these wait for changes of files.
        let watches = ["react-scripts test", "--watch", "ng test"]
            .into_iter()
            .any(|word| script.contains(word));
        let command = if is_workspace { all } else { one };
        Some(suite(
            "package.json",
            &if watches {
                format!("CI=1 {command}")
            } else {
                command.to_owned()
            },
        ))
    }

    fn deno(self) -> Option<TestSuite> {
        let file = ["deno.json", "deno.jsonc"]
            .into_iter()
            .find(|file| self.has(file))?;
        let settings: serde_json::Value =
            serde_json::from_str(&self.text(file)).unwrap_or_default();
        let has_task = !settings["tasks"]["test"].is_null();
        Some(suite(
            "deno.json",
            if has_task {
                "deno task test"
            } else {
                "deno test"
            },
        ))
    }

    fn python(self) -> Option<TestSuite> {
        let tests: Vec<String> = ["", "tests", "test"]
            .into_iter()
            .flat_map(|folder| self.python_tests(folder))
            .collect();
        let settings = [
            "pyproject.toml",
            "setup.cfg",
            "tox.ini",
            "requirements.txt",
            "requirements-dev.txt",
            "Pipfile",
        ];
        let says_pytest = settings
            .into_iter()
            .any(|file| self.settings(file).contains("pytest"))
            || ["pytest.ini", "conftest.py", "tests/conftest.py"]
                .into_iter()
                .any(|file| self.has(file))
            || tests.iter().any(|test| test.contains("import pytest"));
        if tests.is_empty() && !says_pytest {
            return None;
        }
        let runner = if self.has_around(&["uv.lock"]) {
            "uv run "
        } else if self.has("poetry.lock") || self.text("pyproject.toml").contains("[tool.poetry]") {
            "poetry run "
        } else {
            ""
        };
        let by_unittest = !says_pytest && tests.iter().all(|test| test.contains("unittest"));
        if by_unittest {
            let python = if runner.is_empty() && !(self.finds)("python") {
                "python3"
            } else {
                "python"
            };
            let start = if self.has("tests/__init__.py") || !self.has("tests") {
                ""
            } else {
                " -s tests"
            };
            return Some(suite(
                "unittest",
                &format!("{runner}{python} -m unittest discover{start}"),
            ));
        }
        let by_itself = !runner.is_empty() || (self.finds)("pytest");
        Some(suite(
            PYTEST,
            &if by_itself {
                format!("{runner}pytest")
            } else {
                "python3 -m pytest".to_owned()
            },
        ))
    }

    /// The texts of the test files in a folder.
    fn python_tests(self, folder: &str) -> Vec<String> {
        let is_test = |name: &String| {
            let stem = name.strip_suffix(".py");
            stem.is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
        };
        let tests = self.names(folder).into_iter().filter(is_test).take(20);
        tests
            .map(|name| self.text(format!("{folder}/{name}").trim_start_matches('/')))
            .collect()
    }

    fn java(self) -> Option<TestSuite> {
        if self.has("pom.xml") {
            return Some(suite(
                "pom.xml",
                if self.has("mvnw") {
                    "./mvnw -q test"
                } else {
                    "mvn -q test"
                },
            ));
        }
        let files = [
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
        ];
        let is_gradle = files.into_iter().any(|file| self.has(file));
        let command = if self.has("gradlew") {
            "./gradlew test"
        } else {
            "gradle test"
        };
        is_gradle.then(|| suite("build.gradle", command))
    }

    fn ruby(self) -> Option<TestSuite> {
        let bundled = if self.has("Gemfile") {
            "bundle exec "
        } else {
            ""
        };
        if self.has(".rspec")
            || self
                .names("spec")
                .iter()
                .any(|name| name.ends_with("_spec.rb") || name == "spec_helper.rb")
        {
            return Some(suite("spec", &format!("{bundled}rspec")));
        }
        if self.has("bin/rails") && self.has("test") {
            return Some(suite("bin/rails", "bin/rails test"));
        }
        let rakefile = self.text("Rakefile");
        let has_task = rakefile.contains("TestTask")
            || rakefile.contains("task :test")
            || rakefile.contains("task test");
        has_task.then(|| suite("Rakefile", &format!("{bundled}rake test")))
    }

    fn php(self) -> Option<TestSuite> {
        let composer: serde_json::Value =
            serde_json::from_str(&self.text("composer.json")).unwrap_or_default();
        if !composer["scripts"]["test"].is_null() {
            return Some(suite("composer.json", "composer test"));
        }
        if self.has("artisan") {
            return Some(suite("artisan", "php artisan test"));
        }
        let has_config = self.has("phpunit.xml") || self.has("phpunit.xml.dist");
        has_config.then(|| suite("phpunit.xml", "vendor/bin/phpunit"))
    }

    fn dotnet(self) -> Option<TestSuite> {
        let kinds = [".sln", ".slnx", ".csproj", ".fsproj", ".vbproj"];
        let is_dotnet = self
            .names("")
            .iter()
            .any(|name| kinds.into_iter().any(|kind| name.ends_with(kind)));
        is_dotnet.then(|| suite(".NET project", "dotnet test"))
    }

    fn cmake(self) -> Option<TestSuite> {
        let lists = self.settings("CMakeLists.txt").to_lowercase();
        let has_tests = lists.contains("enable_testing")
            || lists.contains("include(ctest)")
            || lists.contains("add_test");
        let command =
            "cmake -B build && cmake --build build && ctest --test-dir build --output-on-failure";
        has_tests.then(|| suite("CMakeLists.txt", command))
    }

    /// `just test`, `make test` or `make check`.
    fn recipes(self) -> Option<TestSuite> {
        let recipe = |files: &[&str], target: &str| {
            let text = files
                .iter()
                .map(|file| self.text(file))
                .find(|text| !text.is_empty())
                .unwrap_or_default();
            text.lines().any(|line| is_target(line, target))
        };
        let makefile = |target| recipe(&["GNUmakefile", "makefile", "Makefile"], target);
        if recipe(&["justfile", "Justfile", ".justfile"], "test") {
            return Some(suite(JUSTFILE, "just test"));
        }
        let target = ["test", "check"]
            .into_iter()
            .find(|target| makefile(target))?;
        Some(suite(MAKEFILE, &format!("make {target}")))
    }
}

/// Whether this line of a Makefile or a justfile begins the target.
fn is_target(line: &str, target: &str) -> bool {
    let names = line
        .split_once(':')
        .filter(|(_, rest)| !rest.starts_with('='));
    names.is_some_and(|(names, _)| {
        !names.starts_with(char::is_whitespace)
            && names
                .split_whitespace()
                .any(|name| name.trim_start_matches('@') == target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checks of a project with these files. No program is installed.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let project = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = project.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        checks(project.path(), &|_| false)
    }

    #[test]
    fn each_toolchain_has_its_command() {
        let script = r#"{"scripts":{"test":"vitest run"}}"#;
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("Cargo.toml", "")], "cargo test"),
            (&[("package.json", script)], "npm test"),
            (
                &[("package.json", script), ("pnpm-lock.yaml", "")],
                "pnpm test",
            ),
            (&[("package.json", script), ("yarn.lock", "")], "yarn test"),
            (
                &[("package.json", script), ("bun.lock", "")],
                "bun run test",
            ),
            (
                &[(
                    "package.json",
                    r#"{"packageManager":"pnpm@9.1.0","scripts":{"test":"jest"}}"#,
                )],
                "pnpm test",
            ),
            (&[("deno.json", "{}")], "deno test"),
            (
                &[("deno.json", r#"{"fmt":{"exclude":["test"]}}"#)],
                "deno test",
            ),
            (
                &[(
                    "package.json",
                    r#"{"scripts":{"test":"react-scripts test"}}"#,
                )],
                "CI=1 npm test",
            ),
            (
                &[
                    ("package.json", r#"{"workspaces":["a"]}"#),
                    ("a/package.json", script),
                ],
                "npm test --workspaces --if-present",
            ),
            (
                &[
                    ("pnpm-workspace.yaml", ""),
                    ("package.json", "{}"),
                    ("a/package.json", script),
                ],
                "pnpm -r test",
            ),
            (
                &[
                    ("Cargo.toml", "[workspace]\n[package]"),
                    ("a/Cargo.toml", ""),
                ],
                "cargo test --workspace",
            ),
            (
                &[("deno.jsonc", r#"{"tasks":{"test":"deno test -A"}}"#)],
                "deno task test",
            ),
            (
                &[("pyproject.toml", "[tool.pytest.ini_options]")],
                "python3 -m pytest",
            ),
            (
                &[("pyproject.toml", "dev = ['pytest']"), ("uv.lock", "")],
                "uv run pytest",
            ),
            (
                &[("pyproject.toml", "[tool.poetry]\npytest = '*'")],
                "poetry run pytest",
            ),
            (
                &[("tests/test_a.py", "def test_a(): pass")],
                "python3 -m pytest",
            ),
            (
                &[("tests/test_a.py", "import unittest")],
                "python3 -m unittest discover -s tests",
            ),
            (
                &[
                    ("tests/test_a.py", "import unittest"),
                    ("tests/__init__.py", ""),
                ],
                "python3 -m unittest discover",
            ),
            (
                &[("test_a.py", "import unittest"), ("uv.lock", "")],
                "uv run python -m unittest discover",
            ),
            (&[("go.mod", "module x")], "go test ./..."),
            (&[("pom.xml", "")], "mvn -q test"),
            (&[("pom.xml", ""), ("mvnw", "")], "./mvnw -q test"),
            (
                &[("build.gradle.kts", ""), ("gradlew", "")],
                "./gradlew test",
            ),
            (&[("build.gradle", "")], "gradle test"),
            (
                &[("Gemfile", ""), ("spec/a_spec.rb", "")],
                "bundle exec rspec",
            ),
            (
                &[("Gemfile", ""), ("bin/rails", ""), ("test/a.rb", "")],
                "bin/rails test",
            ),
            (&[("Rakefile", "Rake::TestTask.new")], "rake test"),
            (
                &[("composer.json", r#"{"scripts":{"test":"phpunit"}}"#)],
                "composer test",
            ),
            (
                &[("composer.json", "{}"), ("phpunit.xml.dist", "")],
                "vendor/bin/phpunit",
            ),
            (&[("App.sln", "")], "dotnet test"),
            (&[("mix.exs", "")], "mix test"),
            (
                &[("CMakeLists.txt", "enable_testing()")],
                "cmake -B build && cmake --build build && ctest --test-dir build --output-on-failure",
            ),
            (
                &[("justfile", "build:\n  cc\n@test: build\n  ./run\n")],
                "just test",
            ),
            (
                &[("Makefile", "all:\n\tcc\ncheck test: all\n\t./run\n")],
                "make test",
            ),
            (&[("Makefile", "check:\n\t./run\n")], "make check"),
        ];
        for (files, command) in cases {
            assert_eq!(found(files), [*command], "{files:?}");
        }
    }

    #[test]
    fn without_tests_there_is_no_check() {
        let npm = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        let script = r#"{"scripts":{"test":"jest"}}"#;
        let cases: [&[(&str, &str)]; 7] = [
            &[("package.json", npm)],
            &[("package.json", r#"{"scripts":{"build":"tsc"}}"#)],
            &[("pyproject.toml", "[project]")],
            &[("CMakeLists.txt", "project(x)\n# enable_testing()")],
            &[("coverage/package.json", script), ("docs/go.mod", "")],
            &[("Makefile", "TEST := test\nall:\n\ttest: x\n")],
            &[("README.md", "")],
        ];
        for files in cases {
            assert!(found(files).is_empty(), "{files:?}");
        }
    }

    #[test]
    fn a_monorepo_has_a_check_for_each_part() {
        let script = r#"{"scripts":{"test":"jest"}}"#;
        let api = ("api/go.mod", "module x");
        assert_eq!(
            found(&[
                api,
                ("web app/package.json", script),
                ("node_modules/x/package.json", script)
            ]),
            ["cd api && go test ./...", "cd 'web app' && npm test"]
        );
        // A part of the root's own toolchain is covered by it, a part of another one is not.
        let rust = [
            ("Cargo.toml", ""),
            ("crates/a/Cargo.toml", ""),
            ("packages/ui/package.json", script),
        ];
        assert_eq!(found(&rust), ["cargo test", "cd packages/ui && npm test"]);
        assert_eq!(found(&[("Makefile", "test:\n\t./all"), api]), ["make test"]);
    }
}
