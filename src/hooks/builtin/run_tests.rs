//! `run_tests`: runs the project's tests.
//!
//! Owns how they are found. The first match in the table runs; a project with several kinds of tests sets
//! `test_command`.

use std::{fs, path::Path};

use super::{
    BuiltinError, BuiltinSuccess,
    program::{ProgramCall, ProgramEnvironment, ProgramResult, ProgramRunner},
};
use crate::{
    engine::hooks::verdict::RunEnd,
    hooks::builtin::{builtin_run::BuiltinRun, quoting::named},
};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Suite {
    /// What indicates this suite.
    by: &'static str,
    program: &'static str,
    args: &'static [&'static str],
}

/// pytest exits with this code if it found no tests.
const PYTEST_FOUND_NONE: i32 = 5;

pub(super) async fn run(worker: &mut BuiltinRun<'_>) -> Result<BuiltinSuccess, BuiltinError> {
    if let Some(line) = worker.submission.test_command.as_deref().filter(|line| !line.trim().is_empty()) {
        let line = line.to_owned();
        let ran = worker.show_line(&line, Vec::new()).await;
        return judged(worker, &named(&line), ran);
    }
    let Some(suite) = find(&worker.runner) else {
        return Ok(BuiltinSuccess::skip(
            "no tests were found (no Cargo.toml, no test script in package.json, no pytest, go.mod, or `test` in a \
             Makefile): set `test_command` if there are some",
        ));
    };
    if !worker.runner.finds(suite.program) {
        return Err(BuiltinError::failed(format!(
            "there is a {} but no `{}` on the PATH: install it, or set `test_command`",
            suite.by, suite.program
        )));
    }
    let call = ProgramCall { setting: ProgramEnvironment::Own, ..ProgramCall::new(suite.program, suite.args) };
    let name = named(&call.line());
    let ran = worker.show(&call).await;
    if suite.by == PYTEST && ran.as_ref().is_ok_and(|ran| ran.code == PYTEST_FOUND_NONE) {
        return Ok(BuiltinSuccess::skip(format!("{name} found no tests")));
    }
    judged(worker, &name, ran)
}

fn judged(
    worker: &BuiltinRun<'_>,
    name: &str,
    ran: Result<ProgramResult, BuiltinError>,
) -> Result<BuiltinSuccess, BuiltinError> {
    let (halt, printed) = match ran {
        Ok(ran) if ran.ok() => return Ok(BuiltinSuccess::success(format!("{name} passed"))),
        Ok(ran) => (BuiltinError::failed(format!("{name} failed (exit {})", ran.code)), ran.tail),
        Err(halt) if halt.end == RunEnd::TimedOut => {
            let limit = worker.errand.job.hook.timeout.0 / 1_000;
            let printed = halt.printed.clone();
            let message =
                format!("{name} did not end within {limit} s: a test hangs, or the hook's `timeout` is too short");
            (BuiltinError { message, ..halt }, printed)
        }
        Err(halt) => return Err(halt),
    };
    let all = worker.errand.place.session_dir.join(worker.errand.job.run.output_file());
    let prompt = format!(
        "The tests do not pass, so the work cannot be submitted: {}.\n\
         The end of what they printed (all of it: {}):\n\n{}\n\n\
         Find out why, repair it, run {name} again until it passes, and commit the repair. Do not remove or weaken tests to \
         make them pass. Do not push.",
        halt.message,
        all.display(),
        if printed.is_empty() { "(nothing)" } else { &printed }
    );
    Err(halt.repaired_by(prompt))
}

const PYTEST: &str = "pytest configuration";

fn find(runner: &ProgramRunner) -> Option<Suite> {
    let folder = &runner.cwd;
    let there = |name: &str| folder.join(name).exists();
    let suite = |by, program, args| Some(Suite { by, program, args });
    if there("Cargo.toml") {
        return suite("Cargo.toml", "cargo", &["test"]);
    }
    if has_npm_script(folder) {
        let program = match () {
            () if there("pnpm-lock.yaml") => "pnpm",
            () if there("yarn.lock") => "yarn",
            () => "npm",
        };
        return suite("package.json", program, &["test"]);
    }
    if has_pytest(folder) {
        return if runner.finds("pytest") {
            suite(PYTEST, "pytest", &[])
        } else {
            suite(PYTEST, "python3", &["-m", "pytest"])
        };
    }
    if there("go.mod") {
        return suite("go.mod", "go", &["test", "./..."]);
    }
    has_make_target(folder).then_some(Suite { by: "Makefile", program: "make", args: &["test"] })
}

/// Whether there is a test script other than the one from `npm init`, which always fails.
fn has_npm_script(folder: &Path) -> bool {
    let text = fs::read(folder.join("package.json")).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let script = package["scripts"]["test"].as_str().unwrap_or_default();
    !script.trim().is_empty() && !script.contains("no test specified")
}

fn has_pytest(folder: &Path) -> bool {
    let says = |file: &str, word: &str| fs::read_to_string(folder.join(file)).is_ok_and(|text| text.contains(word));
    ["pytest.ini", "conftest.py", "tests/conftest.py"].iter().any(|file| folder.join(file).exists())
        || says("pyproject.toml", "[tool.pytest")
        || says("setup.cfg", "[tool:pytest]")
        || says("tox.ini", "[pytest]")
        || has_python_tests(&folder.join("tests"))
}

fn has_python_tests(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        name.starts_with("test_") && Path::new(&*name).extension().is_some_and(|extension| extension == "py")
    })
}

fn has_make_target(folder: &Path) -> bool {
    let names = ["GNUmakefile", "makefile", "Makefile"];
    let text = names.iter().find_map(|name| fs::read_to_string(folder.join(name)).ok()).unwrap_or_default();
    let target = |line: &str| {
        let names = line.split_once(':').filter(|(_, rest)| !rest.starts_with('='));
        names.is_some_and(|(names, _)| !names.starts_with('\t') && names.split_whitespace().any(|name| name == "test"))
    };
    text.lines().any(target)
}
