//! The environment of programs that work with a git repository: git, the forge's command, test
//! runners.

/// Variables that point git to another repository, give it a terminal, or force colours. They are
/// set, for example, if a git hook started creel.
pub const UNSET: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_REFLOG_ACTION",
    "GIT_EXTERNAL_DIFF",
    "GIT_REPLACE_REF_BASE",
    "GPG_TTY",
    "GH_FORCE_TTY",
    "CLICOLOR_FORCE",
];

/// For git and the forge's command, but not for tests.
pub const QUIET: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_MERGE_AUTOEDIT", "no"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Use commits and files as they will be pushed, without local replacements.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // A path that cannot exist, because git warns about any graft file that it can open.
    ("GIT_GRAFT_FILE", "/dev/null/none"),
    // Without an askpass program, ssh would prompt on the terminal, even if another program uses
    // it.
    ("SSH_ASKPASS_REQUIRE", "force"),
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("NO_COLOR", "1"),
];
