//! `run_tests`: runs the project's tests.
//!
//! A project with several kinds of tests sets `test_command`.

use super::{
    job::BuiltinRun,
    outcome::{BuiltinError, BuiltinSuccess, named},
    program::ProgramResult,
};
use crate::{
    engine::hooks::verdict::RunEnd,
    hooks::test_suites::{self, PYTEST},
};

/// pytest exits with this code if it found no tests.
const PYTEST_FOUND_NONE: i32 = 5;

pub(super) async fn run(worker: &mut BuiltinRun<'_>) -> Result<BuiltinSuccess, BuiltinError> {
    if let Some(line) = worker
        .submission
        .test_command
        .as_deref()
        .filter(|line| !line.trim().is_empty())
    {
        let line = line.to_owned();
        let ran = worker.show_line(&line, Vec::new()).await;
        return judged(worker, &named(&line), ran);
    }
    let suite = test_suites::find(&worker.runner.cwd, &|program| worker.runner.finds(program));
    let Some(suite) = suite else {
        return Ok(BuiltinSuccess::skip(
            "no tests were found (no Cargo.toml, no test script in package.json, no pytest, go.mod, or `test` in a \
             Makefile): set `test_command` if there are some",
        ));
    };
    if !suite.program.contains('/') && !worker.runner.finds(&suite.program) {
        return Err(BuiltinError::failed(format!(
            "there is a {} but no `{}` on the PATH: install it, or set `test_command`",
            suite.by, suite.program
        )));
    }
    let name = named(&suite.command);
    let ran = worker.show_line(&suite.command, Vec::new()).await;
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
        Ok(ran) => (
            BuiltinError::failed(format!("{name} failed (exit {})", ran.code)),
            ran.tail,
        ),
        Err(halt) if halt.end == RunEnd::TimedOut => {
            let limit = worker.call.job.hook.timeout.0 / 1_000;
            let printed = halt.printed.clone();
            let message = format!(
                "{name} did not end within {limit} s: a test hangs, or the hook's `timeout` is too short"
            );
            (BuiltinError { message, ..halt }, printed)
        }
        Err(halt) => return Err(halt),
    };
    let all = worker
        .call
        .place
        .session_dir
        .join(worker.call.job.run.output_file());
    let prompt = format!(
        "The tests do not pass, so the work cannot be submitted: {}.\n\
         The end of what they printed (all of it: {}):\n\n{}\n\n\
         Find out why, repair it, run {name} again until it passes, and commit the repair. Do not remove or weaken tests to \
         make them pass. Do not push.",
        halt.message,
        all.display(),
        if printed.is_empty() {
            "(nothing)"
        } else {
            &printed
        }
    );
    Err(halt.repaired_by(prompt))
}
