//! An example for every command.
//!
//! # Invariants
//! - Each example is a command line that creel understands. A test parses them all.

/// A command without `creel`, and its examples: what to type, and what it does.
type CommandExamples = (&'static str, &'static [(&'static str, &'static str)]);

const EXAMPLES: &[CommandExamples] = &[
    (
        "run",
        &[
            (
                "creel run \"Make the tests pass.\"",
                "Run a session on the screen",
            ),
            (
                "creel run -f goal.md --headless -n 20",
                "Without a screen, at most 20 iterations",
            ),
            (
                "creel run --worktree parser \"Write the parser.\"",
                "On a branch and in a folder of its own",
            ),
            (
                "creel run --detach -s nightly",
                "In the background; `creel attach nightly` shows it",
            ),
        ],
    ),
    (
        "resume",
        &[
            ("creel resume", "Continue the latest session"),
            ("creel resume nightly -n 30", "With a new limit"),
            (
                "creel resume nightly --answer send 'Use PDF'",
                "Answer the gate at which it ended",
            ),
        ],
    ),
    (
        "demo",
        &[
            ("creel demo", "Tests fail twice, then pass"),
            ("creel demo limit", "A check that never passes"),
        ],
    ),
    (
        "attach",
        &[(
            "creel attach nightly",
            "Open a screen on the session `nightly`",
        )],
    ),
    (
        "sessions",
        &[("creel sessions", "List the sessions of this project")],
    ),
    (
        "status",
        &[(
            "creel status -s nightly",
            "Show what the session `nightly` does now",
        )],
    ),
    (
        "show",
        &[
            ("creel show", "Print what happened in the latest session"),
            (
                "creel show nightly --prompts",
                "Print what the agent was asked",
            ),
            ("creel show nightly --json", "Print the records"),
        ],
    ),
    (
        "replay",
        &[
            ("creel replay", "Replay the latest session"),
            ("creel replay nightly", "Replay another one"),
        ],
    ),
    ("pause", &[("creel pause", "Send no further prompts")]),
    (
        "unpause",
        &[("creel unpause", "Continue after `creel pause`")],
    ),
    (
        "cancel",
        &[(
            "creel cancel",
            "End the turn now, and wait for `creel message` or `creel unpause`",
        )],
    ),
    (
        "stop",
        &[
            ("creel stop", "Stop after this iteration"),
            ("creel stop --now", "Cancel the turn, then stop"),
        ],
    ),
    (
        "message",
        &[
            (
                "creel message \"Leave the API as it is.\"",
                "Send the agent a message when its turn ends",
            ),
            ("creel message - < notes.md", "Send the text of a file"),
        ],
    ),
    (
        "pending",
        &[(
            "creel pending list",
            "List what has not been sent to the agent yet",
        )],
    ),
    (
        "pending list",
        &[("creel pending list --all", "Also list delivered items")],
    ),
    (
        "pending show",
        &[("creel pending show 2", "Print the text of item 2")],
    ),
    (
        "pending skip",
        &[("creel pending skip 2", "Do not send item 2")],
    ),
    (
        "pending restore",
        &[("creel pending restore 2", "Send item 2 after all")],
    ),
    (
        "pending edit",
        &[
            ("creel pending edit 2", "Edit item 2 in your editor"),
            (
                "creel pending edit 2 \"Only the parser fails.\"",
                "Replace its text",
            ),
        ],
    ),
    (
        "gate",
        &[("creel gate list", "List the open gates and their answers")],
    ),
    (
        "gate list",
        &[("creel gate list --json", "As JSON, for a script")],
    ),
    (
        "gate answer",
        &[
            (
                "creel gate answer 1 continue",
                "Answer gate 1 with `continue`",
            ),
            (
                "creel gate answer 1 send \"Look at line 12.\"",
                "Send the agent a message",
            ),
            (
                "creel gate answer 2 approve --items 1,3",
                "Approve only two of the items",
            ),
        ],
    ),
    ("hooks", &[("creel hooks list", "List the hooks")]),
    (
        "hooks list",
        &[(
            "creel hooks list",
            "List the hooks of the running session, or of the config",
        )],
    ),
    (
        "hooks enable",
        &[("creel hooks enable tests", "Run the hook `tests` again")],
    ),
    (
        "hooks disable",
        &[(
            "creel hooks disable tests --point stop",
            "Do not run the hook `tests` at `stop`",
        )],
    ),
    (
        "hooks run",
        &[("creel hooks run tests", "Run the hook `tests` now")],
    ),
    (
        "hooks stats",
        &[(
            "creel hooks stats -s nightly",
            "Show how often each hook ran and passed",
        )],
    ),
    (
        "checkpoint",
        &[("creel checkpoint list", "List the checkpoints")],
    ),
    (
        "checkpoint list",
        &[(
            "creel checkpoint list -s nightly",
            "List the checkpoints of the session `nightly`",
        )],
    ),
    (
        "checkpoint show",
        &[("creel checkpoint show 1", "Print checkpoint 1")],
    ),
    ("task", &[("creel task list", "List the tasks")]),
    (
        "task add",
        &[
            (
                "creel task add \"Write the parser\" --id parser",
                "Add a task",
            ),
            (
                "creel task add \"Test the parser\" --depends-on parser",
                "Add a task that waits for it",
            ),
        ],
    ),
    (
        "task list",
        &[(
            "creel task list --state ready",
            "List the tasks that can start",
        )],
    ),
    (
        "task show",
        &[("creel task show parser", "Show the task `parser`")],
    ),
    (
        "task start",
        &[("creel task start parser", "Start the task `parser`")],
    ),
    (
        "task done",
        &[(
            "creel task done parser --result \"All forms parse.\"",
            "Complete the task `parser`",
        )],
    ),
    (
        "task block",
        &[(
            "creel task block parser \"The grammar is missing.\"",
            "Mark the task `parser` as blocked",
        )],
    ),
    (
        "task update",
        &[(
            "creel task update parser --priority 0",
            "Raise the priority of the task `parser`",
        )],
    ),
    (
        "task depend",
        &[(
            "creel task depend tests parser",
            "`tests` waits for `parser`",
        )],
    ),
    (
        "task remove",
        &[("creel task remove parser", "Remove the task `parser`")],
    ),
    (
        "worker",
        &[
            (
                "creel worker --drain",
                "Work on queued tasks until none is left",
            ),
            (
                "creel worker --jobs 3",
                "Three at once, each in a git worktree of its own",
            ),
        ],
    ),
    (
        "plan",
        &[
            (
                "creel plan \"Add an export to CSV.\"",
                "The agent proposes tasks; you edit and approve them",
            ),
            (
                "creel plan --session plan-20261116-101500 --yes",
                "Queue what was proposed there",
            ),
        ],
    ),
    (
        "worktree",
        &[(
            "creel worktree list",
            "List the worktrees of this project's sessions",
        )],
    ),
    (
        "worktree list",
        &[("creel worktree list --json", "As JSON, for a script")],
    ),
    (
        "worktree open",
        &[(
            "creel worktree open parser",
            "Open a shell in the worktree `parser`",
        )],
    ),
    (
        "worktree remove",
        &[(
            "creel worktree remove parser",
            "Remove the worktree `parser`, unless it has changes",
        )],
    ),
    (
        "worktree prune",
        &[(
            "creel worktree prune --dry-run",
            "List what ended sessions left behind",
        )],
    ),
    (
        "submit",
        &[(
            "creel submit nightly",
            "Run the checks, then open a pull request",
        )],
    ),
    (
        "merge",
        &[
            ("creel merge nightly", "Run the checks, then merge"),
            (
                "creel merge --queue",
                "Merge all finished tasks, one after another",
            ),
        ],
    ),
    (
        "init",
        &[
            ("creel init", "Write creel.yaml for this project"),
            (
                "creel init --yes --template tdd",
                "Ask nothing; the tests decide",
            ),
        ],
    ),
    (
        "check",
        &[
            ("creel check", "Check the config, and show what runs where"),
            (
                "creel check --strict",
                "Exit with code 1 if something is missing, or after a warning",
            ),
        ],
    ),
    (
        "config",
        &[("creel config example", "Print every key with its default")],
    ),
    (
        "config example",
        &[("creel config example > creel.yaml", "Start with every key")],
    ),
    (
        "config path",
        &[("creel config path", "Print which config applies here")],
    ),
    (
        "agents",
        &[("creel agents", "List the agents, and how to install them")],
    ),
    (
        "trust",
        &[("creel trust", "Trust the config of this project as it is")],
    ),
    ("untrust", &[("creel untrust", "Stop trusting it")]),
    (
        "mcp",
        &[(
            "creel mcp -s nightly",
            "Serve the tools of the session `nightly`",
        )],
    ),
    (
        "schema",
        &[(
            "creel schema > .creel/config.schema.json",
            "Write the schema for your editor",
        )],
    ),
    (
        "completions",
        &[(
            "creel completions zsh > ~/.zfunc/_creel",
            "Complete commands in zsh",
        )],
    ),
    (
        "man",
        &[(
            "creel man --out ~/.local/share/man/man1",
            "Write a manual page for every command",
        )],
    ),
    (
        "help",
        &[
            ("creel help gate answer", "Explain a command"),
            ("creel help exit-codes", "Explain the exit codes"),
        ],
    ),
];

/// The examples of a command, for example `gate answer`.
pub(in crate::cli) fn of(command: &str) -> &'static [(&'static str, &'static str)] {
    EXAMPLES
        .iter()
        .find(|(name, _)| *name == command)
        .map_or(&[], |(_, examples)| examples)
}

/// Examples with their explanations in one column.
pub(in crate::cli) fn listed(examples: &[(&str, &str)]) -> String {
    let width = examples
        .iter()
        .map(|(line, _)| line.len())
        .max()
        .unwrap_or(0);
    let lines: Vec<String> = examples
        .iter()
        .map(|(line, what)| format!("  {line:width$}  {what}"))
        .collect();
    lines.join("\n")
}
