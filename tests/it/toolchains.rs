//! README's whole config in projects of several toolchains: the session ends by itself, and with 0
//! only if the tests pass.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::project::{Project, Ran};

const DONE: &str = "All tests pass.\n<promise>COMPLETE</promise>";

/// A project whose only test fails until its source says 3.
struct Toolchain {
    program: &'static str,
    tests: &'static str,
    lints: &'static str,
    source: &'static str,
    files: &'static [(&'static str, &'static str)],
}

const TOOLCHAINS: [Toolchain; 5] = [
    Toolchain {
        program: "cargo",
        tests: "cargo test",
        lints: "cargo clippy -- -D warnings",
        source: "src/lib.rs",
        files: &[
            (
                "Cargo.toml",
                "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
            ),
            ("src/lib.rs", "pub fn sum() -> u8 {\n    2\n}\n"),
            (
                "tests/sum.rs",
                "#[test]\nfn adds() {\n    assert_eq!(sum::sum(), 3);\n}\n",
            ),
            (".gitignore", "/target\n"),
        ],
    },
    Toolchain {
        program: "npm",
        tests: "npm test",
        lints: "npm run --silent lint",
        source: "sum.js",
        files: &[
            (
                "package.json",
                "{ \"name\": \"sum\", \"scripts\": { \"test\": \"node tests/sum.js\", \"lint\": \"node --check sum.js\" } }",
            ),
            ("sum.js", "module.exports = 2;\n"),
            (
                "tests/sum.js",
                "require('assert').strictEqual(require('../sum.js'), 3);\n",
            ),
        ],
    },
    Toolchain {
        program: "node",
        tests: "node --test tests/",
        lints: "node --check sum.js",
        source: "sum.js",
        files: &[
            ("sum.js", "module.exports = 2;\n"),
            (
                "tests/sum.test.js",
                "require('node:test')('adds', () => require('assert').strictEqual(require('../sum.js'), 3));\n",
            ),
        ],
    },
    Toolchain {
        program: "python3",
        tests: "python3 -m unittest discover -s tests -t .",
        lints: "python3 -m compileall -q sum_of.py",
        source: "sum_of.py",
        files: &[
            ("sum_of.py", "SUM = 2\n"),
            ("tests/__init__.py", ""),
            (
                "tests/test_sum.py",
                "import unittest\nimport sum_of\n\n\nclass Sum(unittest.TestCase):\n    def test_adds(self):\n        \
                 self.assertEqual(sum_of.SUM, 3)\n",
            ),
        ],
    },
    Toolchain {
        program: "make",
        tests: "make test",
        lints: "make --dry-run",
        source: "sum.txt",
        files: &[
            ("sum.txt", "2\n"),
            ("Makefile", "test:\n\tgrep -q 3 sum.txt\n"),
        ],
    },
];

/// The config of README with the commands of the toolchain, and an agent that follows a script.
fn config(toolchain: &Toolchain) -> String {
    let readme = include_str!("../../README.md");
    let (_, from) = readme.split_once("```yaml\n").expect("a config");
    let (config, _) = from.split_once("```").expect("its end");
    assert!(
        config.contains("checks: [\"cargo test\"]") && config.contains("agent: claude"),
        "{config}"
    );
    let own = config
        .replace("cargo test", toolchain.tests)
        .replace("cargo clippy -- -D warnings", toolchain.lints);
    own.replace(
        "agent: claude",
        "agents: { demo: { script: ../scenario.yaml } }\nagent: demo",
    )
}

fn in_project(toolchain: &Toolchain, turns: &Value) -> Project {
    let mut project = Project::with(&config(toolchain));
    for (name, text) in toolchain.files {
        let path = project.root().join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
        project = project.file(name, text);
    }
    let scenario = json!({ "turns": turns, "otherwise": { "say": DONE } });
    fs::write(
        project.root().join("../scenario.yaml"),
        scenario.to_string(),
    )
    .expect("a scenario");
    for args in [
        &["init", "-q"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "commit",
            "-qm",
            "x",
        ],
    ] {
        let ran = Command::new("git")
            .args(args)
            .current_dir(project.root())
            .output()
            .expect("git starts");
        assert!(ran.status.success(), "{ran:?}");
    }
    project
}

/// The session, with the user's own toolchains: a project of a test has another home.
fn run(project: &Project) -> Ran {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let own = |name: &str, folder: &str| {
        std::env::var_os(name).unwrap_or_else(|| home.join(folder).into())
    };
    let mut command = project.command(&["run", "--headless", "--trust", "-s", "s"]);
    command
        .env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"))
        .env("CARGO_HOME", own("CARGO_HOME", ".cargo"));
    Ran::of(&command.output().expect("creel starts"))
}

#[test]
fn the_config_of_the_readme_ends_by_itself_and_with_0_only_if_the_tests_pass() {
    for toolchain in TOOLCHAINS {
        let Toolchain {
            program, source, ..
        } = toolchain;
        if Command::new(program).arg("--version").output().is_err() {
            // A machine with only Rust tries what it has.
            continue;
        }
        let repairs = json!([
            { "run": format!("echo >> {source}"), "say": DONE },
            { "run": format!("sed -i.bak s/2/3/ {source} && rm {source}.bak"), "say": DONE },
        ]);
        let project = in_project(&toolchain, &repairs);
        let ran = run(&project);
        assert_eq!(
            (ran.code, project.outcome().as_deref()),
            (0, Some("complete")),
            "{program}: {}{}",
            ran.out,
            ran.err
        );
        assert_eq!(project.kind("retry_counted").len(), 1, "{program}");
        let claims = json!([{ "run": format!("echo >> {source}"), "say": DONE }]);
        let project = in_project(&toolchain, &claims);
        let ran = run(&project);
        assert_eq!(
            (ran.code, project.outcome().as_deref()),
            (5, Some("forced")),
            "{program}: {}{}",
            ran.out,
            ran.err
        );
    }
}
