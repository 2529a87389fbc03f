//! The codes of refusals are documented.

use std::collections::BTreeSet;

/// The files with a `code()` of a refusal.
const SOURCES: [&str; 5] = [
    "src/engine/refusal.rs",
    "src/engine/tasks/command.rs",
    "src/engine/stop/agent_loop.rs",
    "src/protocol/request.rs",
    "src/protocol/reply.rs",
];

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The texts that the functions called `code` in a source return.
fn codes(source: &str) -> BTreeSet<String> {
    let bodies = source.split("fn code(&self) -> &'static str {").skip(1);
    let bodies = bodies.map(|rest| rest.split("\n    }\n").next().unwrap_or_default());
    bodies
        .flat_map(|body| body.split('"').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_documentation_lists_every_code_and_no_other() {
    let used: BTreeSet<String> = SOURCES.iter().flat_map(|path| codes(&read(path))).collect();
    let page = read("docs/refusals.md");
    let cells = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').nth(1).unwrap_or(""));
    let documented: BTreeSet<String> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect();
    assert!(used.len() > 60, "{used:?}");
    assert_eq!(documented, used);
}
