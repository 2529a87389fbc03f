//! The reason that a session shows for a blocked stop: the line that says what failed, from either
//! stream.

use crate::support::project::Project;

const STDOUT: &str = include_str!("../fixtures/hook_output/cargo_test.stdout.txt");
const STDERR: &str = include_str!("../fixtures/hook_output/cargo_test.stderr.txt");
const FAILED: &str = "assertion `left == right` failed (src/lib.rs:17:9)";

/// A session whose only stop hook prints the output of `cargo test || exit 2` to these streams.
fn tested(streams: &str) -> Project {
    let config = format!(
        "prompt: GOAL\nmax_hook_retries: 1\non_limit: escalate\nagents: {{ demo: {{ script: scenario.yaml }} }}\n\
         hooks: {{ stop: [{{ name: tests, command: '{streams}; exit 2' }}] }}\n"
    );
    Project::with(&config)
        .file(
            "scenario.yaml",
            "turns:\n  - say: <promise>COMPLETE</promise>\n",
        )
        .file("out.txt", STDOUT)
        .file("err.txt", STDERR)
}

#[test]
fn lines_records_and_gates_show_the_test_that_failed_and_the_agent_gets_everything() {
    for streams in [
        "cat err.txt >&2; cat out.txt",
        "cat err.txt out.txt",
        "cat err.txt out.txt >&2",
    ] {
        let project = tested(streams);
        let ran = project.run();
        assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
        assert_eq!(
            project.kind("retry_counted")[0]["reason"],
            FAILED,
            "{streams}"
        );
        let gate = format!("tests still fails after 1 retry: {FAILED}");
        assert_eq!(project.kind("gate_opened")[0]["reason"], gate.as_str());
        for told in [format!("↻ Retry 1 of 1: {FAILED}\n"), format!("◆ {gate}\n")] {
            assert!(ran.out.contains(&told), "{told}{}", ran.out);
        }
        let feedback = project.kind("prompt_sent")[1]["text"]
            .as_str()
            .expect("a text")
            .to_owned();
        assert!(feedback.starts_with("[Hook feedback]: "), "{feedback}");
        for line in STDOUT.lines().chain(STDERR.lines()) {
            assert!(
                feedback.contains(line.trim()),
                "{line:?} is not in {feedback}"
            );
        }
    }
}
