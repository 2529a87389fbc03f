//! The table of every config key: its name, its type, its description and its default.
//!
//! Validation, the JSON schema, the defaults and the test of `config.example.yaml` all read it.
//! Does not know what keys mean together: see [`mod@super::load`].
//!
//! # Invariants
//! - A key that is not in the table is a mistake. A key in the table is validated and documented.

use super::shape::{
    DefaultValue, FieldShape, MapShape,
    ValueType::{
        self, Anything, Bool, BoolOr, Either, Integer, List, Number, Object, OneOf, SomeText, Text,
    },
    duration, duration_or_zero, flag, integer, key, list, map, number, one_of, section, shape,
    text, texts,
};
use crate::engine::policy::WORKTREE_BRANCH;

pub static ROOT: MapShape = shape("config", &[
    integer("version", 1..=i64::MAX, "The version of the config format.").or_int(1),
    text("session", "The session's name: letters, digits, `-` and `_`. Default: from the folder \
        and the time."),
    text("prompt", "The prompt: what the agent should do."),
    text("prompt_file", "A file with the prompt, relative to this file."),
    integer("max_iterations", 1..=1_000_000, "The maximum number of iterations.").or_int(20),
    text("agent", "One of `agents`, or a known agent on PATH. Default: the only one of `agents`; \
        if there are none, the first known agent that is installed."),
    text("model", "The model of the session's agent, unless its own `options` name one. Default: \
        the agent decides."),
    list("retries", &Object(&RETRY_MODEL), "Other models for an iteration that needs many \
        retries."),
    map("agents", &Object(&AGENT), "How to run each agent, by a name of your own; or options for a \
        known agent."),
    text("instructions", "The note at the end of iteration prompts about how to report the end. \
        `auto`: creel's note, unless the goal mentions `<promise>`; `none`: no note; any other \
        text replaces the note.").or_text("auto"),
    one_of("context", &["fresh", "keep"], "`fresh`: a new conversation each iteration; `keep`: one \
        for the whole session.").or_text("fresh"),
    integer("max_hook_retries", 0..=1_000_000, "How many times creel sends the agent back after a \
        blocked stop; 0: never.").or_int(5),
    one_of("on_limit", &["complete", "escalate", "abort"],
        "What happens at the retry limit when unattended.").or_text("complete"),
    integer("max_consecutive_errors", 1..=1_000_000,
        "The maximum number of failed turns in a row.").or_int(3),
    duration_or_zero("turn_timeout", "The timeout of one turn; 0: no limit.").or_text("30m"),
    integer("output_limit", 256..=64 << 20, "The maximum number of bytes of a hook's output that \
        the agent gets.").or_int(16384),
    section("retry", &RETRY, "How long to wait before a retry."),
    section("gates", &GATES, "When creel asks you."),
    list("permissions", &Object(&PERMISSION), "What the agent may do without asking you. The first \
        rule that matches decides, otherwise the gate."),
    list("agent_may", &USER_COMMAND, "More commands that the session's own agent and hooks may \
        use, such as answering gates or starting sessions."),
    texts("protect", "Patterns of paths that no turn may change, relative to the project; a folder \
        stands for all in it. After a turn that changed one, the agent must undo it."),
    one_of("protect_tests", &["warn", "gate", "off"], "What happens when a session that would be \
        complete has deleted, skipped or weakened tests. `warn`: creel says so; `gate`: it asks \
        you first (`tampered`); unattended, exit code 4.").or_text("warn"),
    texts("mask", "Regular expressions of secrets that creel replaces by `[masked]` in what hooks and agents \
        print, besides well-known tokens and the values of variables such as `GITHUB_TOKEN`."),
    one_of("evidence", &["none", "trailer", "note"], "Where creel writes the head of the journal, so that \
        `creel verify` finds a journal that was written anew: nowhere, into its own commits, or into git \
        notes.").or_text("none"),
    section("env", &ENV, "Which of creel's variables agents get. Hooks get all."),
    section("budget", &BUDGET, "What the session may use before creel asks you."),
    section("limits", &LIMITS, "What happens when an agent reaches a usage limit."),
    list("checks", &CHECK, "Commands that must pass after each turn. A failure sends the agent \
        back to work with the output."),
    section("hooks", &HOOKS, "Commands at each point of the lifecycle."),
    section("stop", &STOP, "What decides whether the session is complete."),
    section("automation", &AUTOMATION, "What creel does when tasks change."),
    map("workflows", &Object(&WORKFLOW), "Steps that automation can start, by a name of your own."),
    map("task_types", &Object(&TASK_TYPE), "Checks, hooks, agents and limits for each type of \
        task."),
    key("submit", Either(&[Bool, Object(&SUBMIT)]), "How creel submits and merges the work. \
        `true`: submit it when a session is complete.").or(DefaultValue::OfItsKeys),
    section("merge", &MERGE_QUEUE, "How `creel merge --queue` merges finished tasks."),
    integer("remediation_attempts", 0..=1_000, "How many times the agent can repair what blocked a \
        submit or a merge.").or_int(1),
    key("worktree", Either(&[Bool, Object(&WORKTREE)]), "Run each session in its own git worktree \
        and on its own branch, so that sessions do not disturb each other. `true`: with the defaults \
        of these keys.").or(DefaultValue::Bool(false)),
    section("nats", &NATS, "A NATS server, to watch and control the session from other \
        machines.").or_null(),
    section("otel", &OTEL, "An OpenTelemetry collector, which gets the session as a trace and \
        metrics.").or_null(),
    section("ui", &UI, "Settings of the screen."),
]);

pub static RETRY: MapShape = shape("retry", &[
    one_of("backoff", &["none", "exponential"], "`none`: no wait; `exponential`: longer each time, \
        also when you set one of the other keys.").or_text("none"),
    duration_or_zero("base", "The first wait.").or_int(1),
    number("factor", 1.0..=1000.0, "The factor between two waits.").or_int(2),
    duration_or_zero("max", "The longest wait.").or_int(60),
    number("jitter", 0.0..=1.0, "The random share of a wait.").or(DefaultValue::Float(0.2)),
]);

pub static GATES: MapShape = shape("gates", &[
    one_of("final_delivery", &["ask", "auto", "skip"], "What happens to pending items after the \
        last iteration. Default: `ask`, or `auto` when unattended."),
    one_of("delivery", &["ask", "auto"], "What happens to pending items before each \
        iteration.").or_text("auto"),
    one_of("permissions", &["ask", "allow", "deny"],
        "What happens when an agent asks for permission.").or_text("ask"),
    one_of("questions", &["decline", "escalate"], "What happens when an agent asks you something \
        in an unattended session. `escalate`: it stops for you, with exit code 4.")
        .or_text("decline"),
    one_of("review", &["ask", "auto"], "What happens to comments and failed checks of a pull request \
        before the agent gets them.").or_text("auto"),
    duration_or_zero("timeout", "How long creel waits for your answer before it takes the `auto` \
        answer; 0: no limit.").or_int(0),
]).noun("gate");

pub static STOP: MapShape = shape("stop", &[
    list("hooks", &STOP_HOOK, "What decides after each iteration, in this order: `default`, \
        `validation`, `promise`, a command, a fixed action, or a \
        group.").or(DefaultValue::Names(&["default"])),
    list("rules", &RULE, "The rules that must pass before the work is complete."),
    one_of("settled", &["complete", "ask", "continue"], "What happens when all checks pass and the \
        agent changed nothing: `complete` ends the session, `ask` asks you, `continue` starts the \
        next iteration. Default: `complete`, or `continue` with your own `hooks`."),
    one_of("open_tasks", &["continue", "ignore"], "What happens when the agent reports completion \
        while tasks of the session are open: `continue` starts another iteration with the list of \
        them, once per set of open tasks; `ignore` ends the session.").or_text("continue"),
    integer("circuit_breaker", 0..=1_000_000, "Escalate after so many iterations in a row with \
        failed rules; 0: never.").or_int(3),
    integer("thrashing", 0..=1_000_000, "Escalate after so many iterations in a row in which a \
        file returns to earlier content, or is rewritten while the same rule fails with the same \
        message; 0: never.").or_int(5),
    integer("no_progress", 0..=1_000_000, "Escalate after so many iterations in a row with the \
        same last message; 0: never.").or_int(5),
]);

pub static UI: MapShape = shape("ui", &[
    one_of("theme", &["auto", "dark", "light", "high-contrast", "terminal"],
        "The colors. `auto` is dark or light, like the terminal's background; `terminal` uses only \
        the terminal's own 16 colors.").or_text("auto"),
    flag("mouse", true, "Whether the screen uses the mouse."),
    flag("notify", true, "Whether the screen rings the bell and sends a terminal notification when \
        a gate opens while you look elsewhere."),
    one_of("motion", &["full", "reduced"], "What moves while an agent or a hook works. `reduced`: \
        no spinner, and clocks change at most once per second.").or_text("full"),
    one_of("signs", &["auto", "unicode", "ascii"], "The characters of signs and frames. `auto` \
        uses ASCII where the locale is not UTF-8.").or_text("auto"),
    one_of("hints", &["auto", "always", "never"], "When a line on the screen explains what \
        happens. `auto`: in your first three sessions, until you hide it.").or_text("auto"),
]);

const TOOL_KIND: ValueType = OneOf(&[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other",
]);

pub static PERMISSION: MapShape = shape("permission", &[
    key("kind", Either(&[TOOL_KIND, List(&TOOL_KIND)]),
        "The kind of request, or several kinds. Default: all."),
    key("path", Either(&[SomeText, List(&SomeText)]),
        "A pattern for files, relative to the project, or several patterns. Default: all files."),
    one_of("action", &["allow", "deny", "ask"], "The answer: `allow`, `deny`, or `ask` \
        you.").required(),
]);

/// A command that is reserved for the user, unless the config allows it to agents and hooks.
const USER_COMMAND: ValueType = OneOf(&[
    "pause", "unpause", "message", "cancel", "stop", "pending", "gate", "hooks", "submit", "merge",
    "run", "worker", "init", "task", "worktree",
    "prune",
]);

pub static BUDGET: MapShape = shape("budget", &[
    integer("tokens", 1..=i64::MAX, "Tokens, as the agent reports them. Default: no limit."),
    number("cost", 0.0001..=1_000_000.0, "Cost in dollars, as the agent reports it, otherwise as creel \
        estimates it. Default: no limit."),
    duration("time", "Working time of the agent. Default: no limit."),
]).noun("limit");

pub static OUTAGE: MapShape = shape("outage", &[
    duration("base", "The first wait. Each further one is twice as long.").or_text("5s"),
    duration("max", "The longest wait.").or_text("5m"),
    duration("total", "After so much waiting, the turn has failed.").or_text("2h"),
]);

pub static LIMITS: MapShape = shape("limits", &[
    one_of("on_usage_limit", &["wait", "ask", "fail"], "What happens when the agent reaches a \
        usage limit and no fallback agent can take over. `wait`: the session waits for the reset; \
        `ask`: creel asks you; `fail`: the turn fails like any other.").or_text("wait"),
    duration("max_wait", "creel asks you about longer waits. It also bounds the sum of waits since \
        the last turn that ended well.").or_text("12h"),
    section("outage", &OUTAGE, "The waits while the agent's server is overloaded or cannot be \
        reached. The same turn is sent again, and nothing is counted."),
    duration_or_zero("silence", "After this long without a word, the agent is shown as silent. If \
        `turn_timeout` ends its turn, a fallback agent takes the next one. 0: \
        never.").or_text("10m"),
    texts("fallback", "Agents that take over until then, in this order: agents of the config, \
        or known ones."),
]);

pub static NATS: MapShape = shape("nats", &[
    text("url", "The server, such as `nats://127.0.0.1:4222`. Separate several servers of a \
        cluster with commas.").required(),
    text("user", "The user for the login. `${NAME}` here and in `url`, `password` and `token` \
        stands for an environment variable.").or_null(),
    text("password", "The password of `user`.").or_null(),
    text("token", "A token, for servers without users.").or_null(),
    text("nkey", "A file with the seed of an NKey, relative to this file.").or_null(),
    text("credentials", "A credentials file, relative to this file.").or_null(),
    key("tls", Either(&[Object(&NATS_TLS), Bool]), "Whether the connection must be encrypted, or \
        the certificates for it.").or(DefaultValue::Bool(false)),
    text("prefix", "The prefix of every subject.").or_text("creel"),
    text("stream", "The stream for the records. creel creates it if it is missing, and never \
        changes it.").or_text("CREEL"),
    text("queue", "The project whose queue it is: workers take only tasks of this name. Default: \
        the root commit of the git repository.").or_null(),
    integer("replicas", 1..=5, "How many servers of a cluster keep a copy of the stream, the list \
        of sessions and the queue.").or_int(1),
    duration_or_zero("max_age", "How long the server keeps a record, an ended session in the list \
        of sessions, and a completed task. 0: records and tasks for ever, ended sessions for a \
        day.").or_int(0),
    integer("max_bytes", 0..=i64::MAX, "The maximum size of the stream, in bytes. Beyond it, the \
        stream drops the oldest records; 0: any size.").or_int(0),
]);

pub static OTEL: MapShape = shape("otel", &[
    text("endpoint", "The collector's address for OTLP over HTTP, such as `http://localhost:4318`. \
        creel appends `/v1/traces` and `/v1/metrics`.").required(),
    map("headers", &Text, "More headers of each request, such as `authorization`. `${NAME}` stands \
        for an environment variable."),
]);

pub static NATS_TLS: MapShape = shape("nats_tls", &[
    text("ca", "A file with certificates to trust in addition to those of the system, relative to \
        the config.").or_null(),
    text("cert", "A file with the client certificate, for servers that ask for one.").or_null(),
    text("key", "The file with the certificate's key.").or_null(),
]);

pub static WORKTREE: MapShape = shape("worktree", &[
    text("base", "The branch to start from; creel fetches it first. `HEAD`: your current commit, \
        without fetching. Default: the remote's default branch; without a remote, your current \
        commit."),
    text("folder", "The folder of the worktrees, relative to the project. Default: \
        `.creel/worktrees`."),
    text("branch", "The name of the branch. It must contain `{{session}}`, which is the name of \
        the worktree.").or_text(WORKTREE_BRANCH),
    texts("setup", "Commands that prepare a new worktree, such as `npm ci`. If one fails, creel \
        asks you."),
    texts("copy", "Ignored files and folders that a new worktree needs too, such as `.env`, \
        relative to the project."),
    one_of("keep", &["always", "on_failure", "never"], "When the folder stays after the session. \
        One with uncommitted changes always stays, and so does the branch.").or_text("on_failure"),
]);

const ACP: FieldShape = text("acp", "A program that speaks the Agent Client Protocol.");
const AGENT_COMMAND: FieldShape = text("command", "One process per turn: the prompt on standard \
    input or in place of `{{prompt}}`, the answer on standard output.");
const CONTINUE_COMMAND: FieldShape = text("continue_command",
    "The command for later turns of a conversation, if it differs; `{{conversation}}` is the \
    agent's id of the conversation.");
const MODE: FieldShape = text("mode", "The agent's mode, as the agent names it. Default: the agent \
    decides.");
const SERVICE: ValueType = OneOf(&["serve", "decline"]);
const AGENT_FILES: FieldShape = key("files", SERVICE, "Whether creel reads and writes the \
    project's files for an ACP agent that asks for it.").or_text("serve");
const TERMINALS: FieldShape = key("terminals", SERVICE,
    "Whether creel runs commands for an ACP agent that asks for it.").or_text("serve");
const AGENT_FORMAT: FieldShape = one_of(
    "format", &["text", "claude", "codex", "gemini", "opencode"],
    "The output format of `command`: plain text, or the JSON lines of one of these \
    agents.").or_text("text");
const TTY: FieldShape = flag("tty", false, "Whether `command` gets its own terminal.");
const ERROR_PATTERN: FieldShape = text("error_pattern", "A regular expression (`^` matches at \
    every line). An answer that ends with such an error, outside code blocks and quotations, is a \
    failed turn, whatever the exit code.");
const LIMIT_PATTERN: FieldShape = text("limit_pattern", "A regular expression (`^` matches at \
    every line). An error or answer that matches means that the agent reached a usage limit, in \
    addition to the words that creel knows.");
const USAGE: FieldShape = one_of("usage", &["turn", "conversation", "call"],
    "What the token counts cover that the agent reports at the end of a turn. Default: the turn.");
const MCP: FieldShape = flag("mcp", true, "Whether the agent gets the session's tools: as an MCP \
    server with `acp`, in `CREEL_MCP` with `command`.");
const LIST_TOOLS: FieldShape = flag("list_tools", false, "Whether the completion note lists the \
    names of the session's tools, for agents that do not show all tools to their model.");
const TOOLS: FieldShape = text("tools", "Options that pass the session's tools to the agent. creel \
    appends them to its commands (text that begins with NAME= goes in front). `{{mcp_command}}`, \
    `{{mcp_args}}` and `{{mcp_list}}` are JSON, `{{mcp_line}}` is a command line. `none`: the \
    agent does not accept them.");
const OWN_HOOKS: FieldShape = texts("own_hooks", "The settings files whose hooks the agent runs \
    itself. creel leaves them to it when it imports them; only `Stop` also runs as a check.");
const TOOL_HOOKS: FieldShape = section("tool_hooks", &TOOL_HOOK_SUPPORT, "Which tool calls of the \
    agent hooks at `pre_tool` see, and how creel adds its own hook to the agent.").optional();
const AGENT_ENV: FieldShape = texts("env", "The variables that the agent reads, as names or \
    beginnings with `*`. It gets them even with `env: { base: clean }`.").optional();
const OPTIONS: FieldShape = map("options", &Either(&[SomeText, Bool]), "Values of the agent's own \
    options, such as `model` and `effort`. `creel agents NAME` lists them.").optional();
const FLAGS: FieldShape = map("flags", &SomeText, "The arguments that pass an option to the \
    agent's commands, with `{{value}}`, such as `--model {{value}}` (text that begins with NAME= \
    goes in front). An ACP agent gets other options over the protocol.").optional();
const INSTALL: FieldShape = text("install", "How to install it, in one line.");
const LOGIN: FieldShape = text("login", "How to log in, in one line.");

pub static TOOL_HOOK_SUPPORT: MapShape = shape("tool_hook_support", &[
    one_of("level", &["native", "asks", "sees", "none"], "`native`: all, through a hook that creel \
        adds to the agent for the session; `asks`: those that the agent asks about; `sees`: none \
        before it runs; `none`: none at all.").required(),
    text("args", "With `native`: the arguments that add the hook. `{{pre_tool}}`, `{{post_tool}}` \
        and `{{post_tool_failure}}` are creel's commands as JSON text; `{{pre_tool_trust}}` and \
        `{{post_tool_trust}}` are Codex' hashes of them."),
    text("meta", "With `native`: the same as JSON for `_meta` of a conversation over ACP."),
    map("files", &SomeText, "With `native`: files with such JSON, by name. creel writes them into \
        the session's folder before the agent starts; in `args`, `{{hooks_dir}}` is where.").optional(),
    map("env", &SomeText, "With `native`: variables with such JSON. An object that you have in \
        the variable is extended.").optional(),
    texts("disabled_by", "With `native`: keys of the files in `own_hooks` that turn the agent's hooks \
        off, creel's too. If one is true, the agent does not start.").optional(),
    flag("deny_only", false, "Whether the agent accepts only denials."),
]);

/// At most one of `acp`, `command` and `script`; one, unless creel knows the agent.
pub static AGENT: MapShape = shape("agent", &[
    ACP, AGENT_COMMAND, CONTINUE_COMMAND,
    text("script", "A file of turns that replaces the agent, relative to this file."),
    MODE, AGENT_FILES, TERMINALS, AGENT_FORMAT, TTY, ERROR_PATTERN, LIMIT_PATTERN, USAGE, MCP,
    LIST_TOOLS, TOOLS, OPTIONS, FLAGS, AGENT_ENV, OWN_HOOKS,
    TOOL_HOOKS, INSTALL, LOGIN,
    section("hooks", &HOOKS, "Replaces the hooks of a point when this agent works.").optional(),
    text("prompt_file", "A file with instructions for reviews by this agent, relative to this \
        file."),
]);

pub static ENV: MapShape = shape("env", &[
    one_of("base", &["inherit", "clean"], "`inherit`: all; `clean`: what programs need to run, what \
        the agent itself reads, and `pass`.").or_text("inherit"),
    texts("pass", "More variables for agents with `clean`, as names or beginnings with `*`."),
]);

pub static RETRY_MODEL: MapShape = shape("retry_model", &[
    integer("after", 1..=1_000_000, "After this many retries.").required(),
    text("model", "The model of the next prompts.").required(),
]);

/// The facts apply to all launch methods, unless one overrides them.
pub static KNOWN_AGENT: MapShape = shape("known_agent", &[
    text("title", "The display name. Default: the name."),
    INSTALL, LOGIN, ERROR_PATTERN, LIMIT_PATTERN, USAGE, MCP, LIST_TOOLS, TOOLS, OPTIONS, FLAGS,
    AGENT_ENV, OWN_HOOKS, TOOL_HOOKS,
    list("ways", &Object(&WAY), "The ways to run it. creel uses the first one whose program is \
        installed.").optional(),
]);

/// Either `acp` or `command`.
pub static WAY: MapShape = shape("way", &[
    ACP, AGENT_COMMAND, CONTINUE_COMMAND, MODE, AGENT_FILES, TERMINALS, AGENT_FORMAT, TTY,
    ERROR_PATTERN, LIMIT_PATTERN, USAGE, MCP, LIST_TOOLS, TOOLS, OPTIONS, FLAGS, AGENT_ENV,
    OWN_HOOKS, TOOL_HOOKS, INSTALL, LOGIN,
    text("program", "The program that must be installed. Default: the first word of the command."),
    key("version", Text, "The arguments that print the program's version. Empty: it has \
        none.").or_text("--version"),
]);

const HOOK: ValueType = Either(&[
    SomeText, Object(&BUILTIN_HOOK), Object(&EXEC_HOOK), Object(&GATEKEEPER_HOOK),
    Object(&MATCHER_GROUP), Object(&COMMAND_HOOK),
]);

/// A hook at `stop` with other defaults. A text is a command.
const CHECK: ValueType = Either(&[SomeText, Object(&EXEC_CHECK), Object(&COMMAND_CHECK)]);

const fn point(name: &'static str, doc: &'static str) -> FieldShape {
    list(name, &HOOK, doc)
}

const fn claude_tool_event(name: &'static str, doc: &'static str) -> FieldShape {
    list(name, &HOOK, doc).optional()
}

/// A hook point with Claude Code's name and meaning. These rows come first: elsewhere `Stop` would
/// be another spelling of `stop`.
const fn claude_event(name: &'static str, doc: &'static str) -> FieldShape {
    list(name, &CLAUDE_ENTRY, doc).optional()
}

const CLAUDE_ENTRY: ValueType = Either(&[
    SomeText, Object(&EXEC_HOOK), Object(&CLAUDE_GROUP), Object(&CLAUDE_HOOK),
]);

pub static HOOKS: MapShape = shape("hooks", &[
    claude_event("SessionStart", "Claude Code's event: at `session_start`, and when the session is \
        resumed."),
    claude_event("UserPromptSubmit", "Claude Code's event: at `pre_prompt`."),
    claude_event("Stop", "Claude Code's event: at `stop`."),
    claude_event("StopFailure", "Claude Code's event: at `on_error`."),
    claude_event("Notification", "Claude Code's event: at `on_gate`, when a gate waits for you."),
    claude_event("TaskCompleted", "Claude Code's event: at `on_task_complete`."),
    claude_event("Elicitation", "Claude Code's event: at `on_question`."),
    claude_event("ElicitationResult", "Claude Code's event: sees the answer to a question, and can change \
        it."),
    claude_event("SessionEnd", "Claude Code's event: at `session_end`."),
    key("import", Either(&[SomeText, List(&SomeText)]), "Settings files of Claude Code, Codex or \
        Gemini whose hooks creel runs too, relative to this file or `~/…`. `creel check` lists \
        each hook.").or(DefaultValue::Names(&[])),
    point("session_start", "Once, before the first iteration."),
    point("pre_iteration", "Before each iteration's prompt."),
    point("pre_prompt", "Before each prompt, whatever its reason. Exit 2 keeps it back until you \
        decide."),
    point("pre_tool", "When the agent asks for permission, before you are asked. Exit 2 denies it."),
    point("post_tool", "After a tool call of the agent, while its turn continues."),
    claude_tool_event("PreToolUse", "`pre_tool` with Claude Code's input."),
    claude_tool_event("PermissionRequest", "The same as `PreToolUse`, with this name."),
    claude_tool_event("PostToolUse", "`post_tool` with Claude Code's input, for calls that succeeded."),
    claude_tool_event("PostToolUseFailure", "The same for calls that failed."),
    point("on_question", "When the agent asks a question, before you are asked. Exit 2 declines it."),
    point("stop", "After each turn. Exit 2 sends the agent back to work."),
    point("post_iteration", "After each completed iteration."),
    point("on_task_complete", "When a task is completed, while the agent works."),
    point("on_error", "After a failed turn."),
    point("on_gate", "When a gate opens and when it closes. The session does not wait for it."),
    point("before_submit", "Before the work is submitted. Default: `create_pr` when you \
        submit.").optional(),
    point("after_submit", "After the work is submitted."),
    point("before_merge", "Before the work is merged."),
    point("after_merge", "After the work is merged."),
    point("session_end", "Once, at the end."),
]).noun("hook point");

const FAILURES: &[&str] = &["ignore", "block", "escalate"];

const HOOK_NAME: FieldShape = text("name", "The name, unique at its point. Default: the command.");
const HOOK_PRIORITY: FieldShape = integer("priority", -1_000_000..=1_000_000,
    "Lower runs first. Equal priorities run in the order of the file.").or_int(100);
const HOOK_ENABLED: FieldShape = flag("enabled", true, "Whether it runs.");
const ON_FAILURE: FieldShape = one_of("on_failure", FAILURES,
    "What a failure means. Default: depends on the point. Where hooks can block, exit 2 blocks and \
    is not a failure.");
const HOOK_TIMEOUT: FieldShape = duration("timeout", "The timeout.").or_int(60);
const PIPE_OUTPUT: FieldShape = key("pipe_output", BoolOr(&["on_failure"]),
    "Whether the agent gets its output. `on_failure`: only the output of a run that did not \
    pass.").or(DefaultValue::Bool(false));
/// A check takes as long as tests take, and blocks unless it says otherwise.
const CHECK_TIMEOUT: FieldShape = HOOK_TIMEOUT.or_text("10m");
const CHECK_ON_FAILURE: FieldShape = one_of("on_failure", FAILURES,
    "What a failure means. `block` sends the agent back with the output, `ignore` makes the check \
    advisory.").or_text("block");
const RETRIES: FieldShape = integer("retries", 0..=1_000_000,
    "Only at `stop`: how many times the hook can send the agent back; 0: never. `max_hook_retries` \
    limits all hooks together.");
const FEEDBACK: FieldShape = text("feedback", "Only at `stop`: the feedback for the agent when the \
    hook blocks, with `{{hook}}`, `{{reason}}`, `{{output}}`, `{{attempt}}`, `{{limit}}` and \
    `{{changed}}` (the difference from its last output).");

const TESTS: FieldShape = one_of("tests", &["base"], "Only for checks. `base`: before the session is \
    complete, the check also runs in a clean worktree with the test files of the commit before the \
    session; a failure is a sign of weakened tests (`protect_tests`).");

const HOOK_COMMAND: FieldShape = text("command", "A command for `sh -c` in the project folder. \
    `{{session}}` and others stand for values.").required();
const EXEC: FieldShape = list("exec", &Text, "A program and its arguments, run in the project \
    folder without a shell. `{{session}}` and others stand for values in arguments.").required();
const HOOK_TYPE: FieldShape = one_of("type", &["command"],
    "Always `command`, as other tools write it.");

const ONE_OR_MORE: ValueType = Either(&[SomeText, List(&SomeText)]);
const MATCH: FieldShape = section("match", &TOOL_MATCH, "Only at `pre_tool` and `post_tool`: the \
    tool calls that the hook is for. All conditions must hold.").optional();
const MATCHER: FieldShape = key("matcher", Text, "Only at `pre_tool` and `post_tool`: names of \
    tools as Claude Code matches them, `Edit|Write` or a regular expression.");

pub static TOOL_MATCH: MapShape = shape("tool_match", &[
    key("name", ONE_OR_MORE, "A pattern for the tool's name, the agent's own or Claude Code's, or \
        several. Default: all."),
    key("kind", Either(&[TOOL_KIND, List(&TOOL_KIND)]), "The kind of call, or several. Default: \
        all."),
    key("path", ONE_OR_MORE, "A pattern for files, relative to the project, or several; one file \
        that matches is enough. Default: all."),
]);

/// A hook that runs a program without a shell.
pub static EXEC_HOOK: MapShape = shape("exec_hook", &[
    EXEC, HOOK_NAME, HOOK_TIMEOUT, PIPE_OUTPUT, HOOK_PRIORITY, HOOK_ENABLED, ON_FAILURE, MATCH,
    MATCHER, RETRIES, FEEDBACK, TESTS,
]).with_one_of(&["exec"]);

pub static COMMAND_HOOK: MapShape = shape("command_hook", &[
    HOOK_COMMAND, HOOK_NAME, HOOK_TIMEOUT, PIPE_OUTPUT, HOOK_PRIORITY, HOOK_ENABLED, ON_FAILURE,
    MATCH, MATCHER, RETRIES, FEEDBACK, TESTS, HOOK_TYPE,
]);

pub static EXEC_CHECK: MapShape = shape("exec_check", &[
    EXEC, HOOK_NAME, CHECK_TIMEOUT, PIPE_OUTPUT, HOOK_PRIORITY, HOOK_ENABLED, CHECK_ON_FAILURE,
    RETRIES, FEEDBACK, TESTS,
]).with_one_of(&["exec"]);

pub static COMMAND_CHECK: MapShape = shape("command_check", &[
    HOOK_COMMAND, HOOK_NAME, CHECK_TIMEOUT, PIPE_OUTPUT, HOOK_PRIORITY, HOOK_ENABLED,
    CHECK_ON_FAILURE, RETRIES, FEEDBACK, TESTS, HOOK_TYPE,
]);

pub static BUILTIN_HOOK: MapShape = shape("builtin_hook", &[
    text("builtin", "The built-in hook: `rebase_on_main`, `run_tests`, `create_pr` or \
        `merge_pr`.").required(),
    text("command", "The command of `run_tests`. Default: `submit.test_command`, or the tests of \
        the toolchain."),
    text("base_branch", "The target branch of the work. Default: `submit.base_branch`. Not for \
        `run_tests`."),
    text("remote", "The target remote of the work. Default: `submit.remote`. Not for `run_tests`."),
    HOOK_NAME,
    duration("timeout", "The timeout.").or_text("30m"),
    HOOK_PRIORITY, HOOK_ENABLED, ON_FAILURE,
]).with_one_of(&["builtin"]);

pub static GATEKEEPER_HOOK: MapShape = shape("gatekeeper_hook", &[
    texts("gatekeeper", "The agents that review the change.").required(),
    HOOK_NAME,
    duration("timeout", "The timeout of the reviews.").or_text("30m"),
    HOOK_PRIORITY, HOOK_ENABLED, ON_FAILURE,
]).with_one_of(&["gatekeeper"]);

/// A group of hooks in Claude Code's format.
pub static MATCHER_GROUP: MapShape = shape("matcher_group", &[
    key("matcher", Text, "The names of tools, `Edit|Write` or a regular expression. At points \
        without tool calls only `*` has an effect."),
    list("hooks", &Object(&COMMAND_HOOK), "The hooks of the group.").required(),
]).with_one_of(&["hooks"]);

/// A handler as Claude Code's settings write it, with creel's own keys.
pub static CLAUDE_HOOK: MapShape = shape("claude_hook", &[
    HOOK_COMMAND,
    texts("args", "The arguments of `command`, which then runs without a shell.").optional(),
    duration("timeout", "The timeout. Default: 10m; `UserPromptSubmit` 30s, `SessionEnd` 1m."),
    HOOK_TYPE,
    one_of("shell", &["sh", "bash"], "The shell of `command`.").or_text("sh"),
    flag("async", false, "Claude Code does not wait for it. creel does, and its failure is only a \
        warning."),
    flag("async_rewake", false, "Like `async`, but exit code 2 counts."),
    key("status_message", Text, "For compatibility. It has no effect."),
    HOOK_NAME, PIPE_OUTPUT, HOOK_PRIORITY, HOOK_ENABLED, ON_FAILURE, RETRIES, FEEDBACK,
]);

pub static CLAUDE_GROUP: MapShape = shape("claude_group", &[
    key("matcher", Text, "Which occasions: a word, several as `a|b`, or a regular expression. \
        Default: all."),
    list("hooks", &Object(&CLAUDE_HOOK), "The hooks of the group.").required(),
]).with_one_of(&["hooks", "matcher"]);

/// The last one lists the valid types for the error message.
static RULE: ValueType = Either(&[
    Object(&COMMAND_RULE), Object(&PATTERN_RULE), Object(&FILES_RULE), Object(&COVERAGE_RULE),
    Object(&ANY_RULE),
]);

const RULE_NAME: FieldShape = text("name", "The name, unique among the rules.").required();
const RULE_TYPE: FieldShape = one_of(
    "type", &["command", "content_pattern", "file_existence", "coverage"],
    "The kind of rule.").required();

const RULE_TIMEOUT: FieldShape = duration("timeout", "The timeout of the check.").or_int(60);
const RULE_ENABLED: FieldShape = flag("enabled", true, "Whether creel checks it.");

static ANY_RULE: MapShape = shape("rule", &[RULE_NAME, RULE_TYPE]).free_keys();

pub static COMMAND_RULE: MapShape = shape("command_rule", &[
    RULE_NAME, RULE_TYPE,
    text("command", "A command for `sh -c` in the project folder. `{{session}}` and \
        `{{iteration}}` stand for values.").required(),
    integer("expected_exit", 0..=255, "The exit code that passes.").or_int(0),
    integer("expected_exit_code", 0..=255, "Another name for `expected_exit`."),
    text("folder", "The working folder, relative to the project folder."),
    map("env", &Text, "More environment variables."),
    RULE_TIMEOUT, RULE_ENABLED,
]).with_type("command");

pub static PATTERN_RULE: MapShape = shape("content_pattern_rule", &[
    RULE_NAME, RULE_TYPE,
    text("pattern", "A regular expression.").required(),
    text("file", "The file to search, relative to the project folder. Default: the agent's last \
        message."),
    flag("must_match", true, "Whether a match passes, or no match."),
    RULE_TIMEOUT, RULE_ENABLED,
]).with_type("content_pattern");

pub static FILES_RULE: MapShape = shape("file_existence_rule", &[
    RULE_NAME, RULE_TYPE,
    texts("files", "The files that must exist.").required(),
    one_of("mode", &["all", "any"], "Whether all of them must exist, or any.").or_text("all"),
    RULE_TIMEOUT, RULE_ENABLED,
]).with_type("file_existence");

pub static COVERAGE_RULE: MapShape = shape("coverage_rule", &[
    RULE_NAME, RULE_TYPE,
    text("file", "The coverage report."),
    text("report", "Another name for `file`."),
    one_of("format", &["lcov", "cobertura", "json"],
        "The format of the report. Default: from its name."),
    number("minimum", 0.0..=100.0, "The lowest coverage that passes, in percent.").required(),
    RULE_TIMEOUT, RULE_ENABLED,
]).with_type("coverage");

static STOP_HOOK: ValueType = Either(&[
    OneOf(PRESETS), Object(&STOP_COMMAND), Object(&STOP_ACTION), Object(&STOP_ALL),
    Object(&STOP_ANY), Object(&STOP_PRESET),
]);

const PRESETS: &[&str] = &["default", "validation", "promise"];

const STOP_NAME: FieldShape = text("name", "The name. Default: what it does.");
const WHEN: FieldShape = section("when", &STOP_WHEN,
    "When creel asks it: all conditions must be true. Default: always.");
const STOP_ENABLED: FieldShape = flag("enabled", true, "Whether creel asks it.");

pub static STOP_PRESET: MapShape = shape("stop_preset", &[
    one_of("preset", PRESETS, "What decides.").required(),
    STOP_NAME, WHEN, STOP_ENABLED,
]);

pub static STOP_COMMAND: MapShape = shape("stop_command", &[
    text("command", "A command that reads the agent's context as JSON and answers with an \
        action.").required(),
    STOP_NAME,
    duration("timeout", "The timeout.").or_int(60),
    WHEN, STOP_ENABLED,
]).with_one_of(&["command"]);

pub static STOP_ACTION: MapShape = shape("stop_action", &[
    one_of("action", &["complete", "continue", "escalate"],
        "The decision when the conditions are true.").required(),
    text("reason", "The reason."),
    text("next_prompt", "Text for the agent's next prompt."),
    key("checkpoint", Anything, "Data for a checkpoint, whatever the decision."),
    STOP_NAME, WHEN, STOP_ENABLED,
]).with_one_of(&["action"]);

pub static STOP_ALL: MapShape = shape("stop_all", &[
    list("all", &STOP_HOOK, "Complete when all of these complete; escalate when one \
        escalates.").required(),
    STOP_NAME, WHEN, STOP_ENABLED,
]).with_one_of(&["all"]);

pub static STOP_ANY: MapShape = shape("stop_any", &[
    list("any", &STOP_HOOK, "Complete when one of these completes; otherwise escalate when one \
        escalates.").required(),
    STOP_NAME, WHEN, STOP_ENABLED,
]).with_one_of(&["any"]);

pub static STOP_WHEN: MapShape = shape("stop_when", &[
    key("iteration", Either(&[Integer(1, 1_000_000), SomeText]),
        "The iterations: one (`5`), or a range (`3..5`, `3..`, `..5`), both ends included."),
    texts("files", "Patterns: the agent changed a file that matches one of them."),
    map("rules", &OneOf(&["passed", "failed"]), "The results of rules, by name."),
    texts("labels", "Labels: the task has one of them."),
]).noun("condition");

pub static SUBMIT: MapShape = shape("submit", &[
    flag("on_complete", false, "Whether creel submits the work when a session is complete. \
        Otherwise use `creel submit`."),
    text("base_branch", "The branch that the work is merged into. Default: the remote's HEAD, as \
        the remote reports it."),
    text("remote", "The remote to push to. Default: the branch's upstream remote, or `origin`."),
    text("pr_command", "A command that opens a pull request instead of `gh` or `glab`, for another forge."),
    text("test_command", "The command of `run_tests`. Default: the tests of the project's \
        toolchain."),
    one_of("until", &["pull_request", "merged"], "`merged`: the session waits until the pull request \
        is merged, and the agent gets failed checks and comments.").or_text("pull_request"),
    integer("rounds", 0..=1_000, "How many times the agent gets news of the pull request before \
        creel asks you.").or_int(5),
    one_of("merge", &["ask", "auto", "never"], "What happens when all checks passed and the reviewers \
        approved: creel asks you, merges, or leaves it to others.").or_text("ask"),
    texts("reviewers", "The accounts with comments for the agent: names, `collaborators` for all that may \
        push, or `*`. Default: `collaborators`.").optional(),
    duration("max_watch", "How long the session waits for the merge.").or_text("7d"),
    duration("poll", "How often creel looks after a change; later ten times as seldom.")
        .or_text("30s"),
]);

pub static MERGE_QUEUE: MapShape = shape("merge_queue", &[
    integer("attempts", 0..=1_000, "How many times a task that conflicts or fails a check goes back to \
        its agent before it is blocked.").or_int(2),
    one_of("style", &["merge", "squash", "rebase"], "What the commits of a task become: they stay, below a \
        merge commit; one commit; or the same commits on top of the base.").or_text("merge"),
]);

pub static TASK_TYPE: MapShape = shape("task_type", &[
    list("checks", &CHECK, "The commands that must pass after each turn, instead of the project's \
        `checks`.").optional(),
    section("hooks", &HOOKS, "Replaces the hooks of a point for tasks of this type.").optional(),
    key("agents", Either(&[List(&SomeText), Object(&TASK_AGENTS)]),
        "The agents that may work on this type. creel takes the config's agent if it is listed, \
        else the first that is installed. Default: all."),
    section("stop", &TYPE_STOP, "What decides whether work of this type is complete.").optional(),
    text("model", "The model of the session's agent."),
    integer("max_iterations", 1..=1_000_000, "The maximum number of iterations."),
    integer("max_hook_retries", 0..=1_000_000, "How many times creel sends the agent back after a \
        blocked stop."),
    integer("remediation_attempts", 0..=1_000, "How many times the agent can repair what blocked a \
        submit or a merge."),
    duration_or_zero("turn_timeout", "The timeout of one turn."),
]);

static TASK_AGENTS: MapShape = shape("task_agents", &[
    texts("implementer", "The agents that do the work."),
    texts("gatekeeper", "The agents that review it."),
]).noun("role");

pub static TYPE_STOP: MapShape = shape("type_stop", &[
    list("hooks", &STOP_HOOK, "What decides after each iteration, in this order, instead of the \
        hooks of `stop`.").optional(),
    list("rules", &RULE, "The rules that must pass before the work is complete, instead of the \
        rules of `stop`.").optional(),
]);

const TASK_EVENTS: ValueType = OneOf(&[
    "task_created", "task_started", "task_completed", "task_blocked", "task_deleted",
    "dependency_added", "dependency_removed", "dependency_satisfied",
]);

pub static AUTOMATION: MapShape = shape("automation", &[
    list("hooks", &Object(&AUTOMATION_HOOK), "Your own commands, and hooks to enable, disable or \
        reorder: built-in ones and those of `file`."),
    text("file", "A file with more hooks, relative to this file. The file can also enable, disable \
        and reorder those of `hooks`.").or_null(),
    key("version", Either(&[OneOf(&["1", "1.0"]), Number(1.0, 1.0)]),
        "The version of the file's format, as other tools write it."),
]);

pub static AUTOMATION_HOOK: MapShape = shape("automation_hook", &[
    text("name", "A built-in hook, or the name of your own. Without a `command`, the entry \
        enables, disables or reorders the hook of that name.").required(),
    list("event_types", &TASK_EVENTS, "The events that it runs for. Built-in hooks have their \
        own.").optional(),
    integer("priority", -1_000_000..=1_000_000, "Lower runs first. Default: 100, or the built-in \
        hook's priority."),
    flag("enabled", true, "Whether it runs."),
    text("command", "A command for `sh -c`. It reads the event as JSON and answers with actions."),
    duration("timeout", "The timeout of the command.").or_int(60),
    map("metadata", &Anything, "A comment on it.").optional(),
]);

pub static WORKFLOW: MapShape = shape("workflow", &[
    key("description", Text, "What the workflow is for."),
    list("steps", &Object(&STEP), "The steps, in order.").required(),
]);

const STEP_NAME: FieldShape = text("name", "The name. Later steps get its result as \
    `{{steps.NAME.stdout}}`, `stderr`, `exit` and `task`.");
const STEP_ID: FieldShape = text("id", "Another name for `name`.");
const STEP_COMMAND: FieldShape = text("command", "A command for `sh -c`, in a step of type \
    `command`. `{{context.NAME}}` is a part of the context that the action passed on.");
const STEP_TIMEOUT: FieldShape = duration("timeout", "The timeout of the command.").or_int(60);
const STEP_TASK: FieldShape = map("task", &Anything, "The task to add, in a step of type \
    `create_task`: `goal`, `labels`, `priority` and so on.").optional();
const STEP_TASK_ID: FieldShape = text("task_id", "The task to change, in a step of type \
    `update_task`.");
const STEP_ACTION: FieldShape = text("action", "The action: `start`, `complete`, `block`, `update` \
    and so on.");
const STEP_PAYLOAD: FieldShape = map("payload", &Anything, "The action's arguments.").optional();
const STEP_VALUE: FieldShape = text("value", "The value to check, in a step of type `condition`.");
const STEP_EQUALS: FieldShape = key("equals", Either(&[Text, Integer(i64::MIN, i64::MAX)]),
    "The value must equal this.");
const STEP_CONTAINS: FieldShape = text("contains", "The value must contain this.");

pub static STEP: MapShape = shape("workflow_step", &[
    STEP_NAME, STEP_ID,
    one_of("type", &["command", "create_task", "update_task", "condition", "parallel", "noop"],
        "The type of the step.").required(),
    STEP_COMMAND, STEP_TIMEOUT, STEP_TASK, STEP_TASK_ID, STEP_ACTION, STEP_PAYLOAD, STEP_VALUE,
    STEP_EQUALS, STEP_CONTAINS,
    list("steps", &Object(&PART), "The steps to run in parallel, in a step of type \
        `parallel`.").optional(),
    text("on_success", "The next step after success, or `stop`. Default: the next in the list."),
    text("on_failure", "The next step after a failure. Default: `stop`."),
]);

/// A step that runs in parallel with others.
pub static PART: MapShape = shape("parallel_step", &[
    STEP_NAME, STEP_ID,
    one_of("type", &["command", "create_task", "update_task", "condition", "noop"],
        "The type of the step.").required(),
    STEP_COMMAND, STEP_TIMEOUT, STEP_TASK, STEP_TASK_ID, STEP_ACTION, STEP_PAYLOAD, STEP_VALUE,
    STEP_EQUALS, STEP_CONTAINS,
]);
