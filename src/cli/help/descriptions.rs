//! What each command does, for its manual page: more than the line in the help, less than the book.
//!
//! # Invariants
//! - Every command has a description. A test reads the pages.

/// The description of a command, for example `gate answer`. Empty for `creel` itself. Paragraphs
/// are separated by empty lines.
pub(super) fn of(path: &str) -> Option<&'static str> {
    DESCRIPTIONS
        .iter()
        .find(|(name, _)| *name == path)
        .map(|(_, text)| *text)
}

const DESCRIPTIONS: &[(&str, &str)] = &[
    (
        "",
        "creel runs a coding agent in a loop. Each pass, an iteration, sends the agent your goal and what your hooks found, \
         and after the agent's turn checks the work with commands of yours. What a check reports goes back to the agent. The \
         session ends when the work is complete, when a limit is reached, or when you stop it.\n\nWhere you have to \
         decide, the session waits at a gate. Everything that happens is a record in the session's journal, so that you can \
         resume, replay and show every session.\n\nIn a terminal, creel without a command opens the home screen with all \
         your sessions.",
    ),
    (
        "run",
        "Starts a session: sends the goal to the agent, runs the hooks of the config around each step, and repeats until the \
         work is complete or a limit is reached. The goal is PROMPT, a file, or the config's prompt.\n\nIn a terminal, the \
         screen shows the session and asks you at gates; leave it with q. Without a terminal, and with --headless, creel \
         prints lines, and gates get the answer that the config gives for an unattended session.\n\nThe hooks and agents of \
         a config run only after you have trusted it: creel asks, or you say so with --trust.\n\nIn a folder in which another \
         session runs, creel asks, or without a terminal refuses. --worktree gives the session its own folder and branch, and \
         --force runs it beside the other one.",
    ),
    (
        "resume",
        "Continues a session where it was: after you stopped it, after creel was killed, or after it reached a limit that you \
         raise. Counters, pending items and open gates are as they were. An interrupted turn is sent again, and an \
         interrupted hook runs again. The session keeps the rules that it started with, even if the config has changed \
         since.\n\nA session that ended at a gate opens it again first. --answer answers it, and --checkpoint starts the next \
         iteration instead.\n\nWithout a name, creel takes the latest session that can be resumed.",
    ),
    (
        "demo",
        "Plays a session with a scripted agent and real hooks in a temporary folder, which is removed afterwards. Any key \
         skips ahead, and space pauses. Use --keep to keep the folder.",
    ),
    (
        "attach",
        "Opens a second screen on a session that runs elsewhere: in another terminal, in the background, in a worker, or on \
         another machine. You can do everything that the first screen can. Leaving the screen leaves the session running.",
    ),
    (
        "sessions",
        "Lists sessions with their state, iteration and age: first those that need you, then running ones, then the others. \
         --watch keeps the list up to date. With --nats, creel lists the sessions on all machines of that server.",
    ),
    (
        "show",
        "Prints what happened in a session, running or past, and at its end how it ended, what it took and what it changed. \
         Without a name, creel takes the latest session.",
    ),
    (
        "replay",
        "Shows a past session on the screen again. Step through its records, or play them at the speed at which they \
         happened, or faster. Nothing runs. Without a name, creel takes the latest session.",
    ),
    (
        "status",
        "Prints what the session does now: its state, iteration, retries, pending items, tasks, and the gate that it waits \
         at. Exits with 2 if the session is not running.",
    ),
    (
        "pause",
        "The current turn ends first, and its hooks run; then the session waits for `creel unpause`. It stays paused if \
         creel is killed and you resume it on a screen.",
    ),
    (
        "unpause",
        "The session continues with the prompt that was due when you paused it.",
    ),
    (
        "cancel",
        "Ends the agent's turn at once and pauses the session. The iteration is not used up: your next `creel message` \
         replaces the turn, and `creel unpause` sends it again. The work that the agent has done so far stays.",
    ),
    (
        "stop",
        "Ends the session after the current iteration. With --now, creel cancels the turn and ends the session at once. Both \
         run the hooks at session_end. You can continue the session with `creel resume`.",
    ),
    (
        "message",
        "Queues a text for the agent. creel sends it when the current turn ends, and starts the retries again from 0. A message \
         that arrives while the session is about to be complete continues its last iteration. From session_end on, the \
         session refuses messages.",
    ),
    (
        "pending",
        "Hook output that goes to the agent waits in the pending buffer until a prompt carries it. Until then you can read, \
         change, skip and restore each item.",
    ),
    (
        "pending list",
        "Lists the items in the order of their delivery: number, hook, size, and when creel sends each.",
    ),
    (
        "pending show",
        "Prints the whole text of an item, delivered or not.",
    ),
    (
        "pending skip",
        "The item stays in the journal, and no prompt carries it. `creel pending restore` undoes this.",
    ),
    (
        "pending restore",
        "The item goes with the next prompt again, at its old place in the order.",
    ),
    (
        "pending edit",
        "Replaces the text that the agent gets: with TEXT, with standard input for `-`, or with what you write in your editor. \
         The item is marked as edited.",
    ),
    (
        "gate",
        "A gate is a decision that the session waits for you to make: at the retry limit, before the final delivery, about a \
         permission request, and so on. You can answer on the screen or from any other terminal.",
    ),
    (
        "gate list",
        "Lists the open gates with their number, the reason, and the answers that each accepts.",
    ),
    (
        "gate answer",
        "Answers a gate with one of the choices that `creel gate list` shows. Some choices take a TEXT, for example `send`, \
         which sends it to the agent. If several people answer one gate, the first answer counts, and creel says so to the \
         others.",
    ),
    (
        "hooks",
        "Hooks are commands that creel runs at the points of a session, such as `stop` after each turn. `creel help hooks` \
         lists the points, and what a hook gets and can answer.",
    ),
    (
        "hooks list",
        "Lists each hook with its point, its command and its timeout, and whether it is on.",
    ),
    (
        "hooks enable",
        "Turns a hook on again, from its next run on. The config does not change.",
    ),
    (
        "hooks disable",
        "Turns a hook off for the rest of this session. The config does not change.",
    ),
    (
        "hooks run",
        "Runs a hook by hand, beside the session, and shows its output there. The agent does not get the output, and the \
         verdict counts for nothing.",
    ),
    (
        "hooks stats",
        "Counts the runs of each hook of a session, running or past: how many passed, how long they took, and how many retries \
         they caused.",
    ),
    (
        "checkpoint",
        "A checkpoint is data that a stop hook or the agent stored during the work, with the commit that the work was at. \
         `creel resume --checkpoint N` gives it to the agent again.",
    ),
    (
        "checkpoint list",
        "Lists the checkpoints of a session, running or past: number, iteration, and what stored each.",
    ),
    (
        "checkpoint show",
        "Prints the data of a checkpoint as JSON, and the commit that the work was at.",
    ),
    (
        "task",
        "A session has a graph of tasks: each has a goal, a state, and tasks that it depends on. With --queue, the commands are \
         about the queue instead, from which workers take tasks: the project's own, or that of a NATS server.",
    ),
    (
        "task add",
        "Adds a task to the running session or, with --queue, to the queue. It is ready when all tasks that it depends on are \
         completed. Without --id, the queue gives it the next number.",
    ),
    (
        "task list",
        "Lists the tasks of a session, running or past, or of the queue, with their state and what they wait for.",
    ),
    (
        "task show",
        "Prints everything about a task: goal, state, dependencies, result, and in the queue its worker and branch.",
    ),
    (
        "task start",
        "Marks a ready or blocked task as active. With --queue, puts a blocked task into the queue again, so that a worker takes \
         it.",
    ),
    (
        "task done",
        "Completes a task. Tasks that waited for it become ready. With --queue, the work on its branch counts as finished: tasks \
         that depend on it start from this branch, and `creel merge --queue` merges it.",
    ),
    (
        "task block",
        "Marks a task as blocked, with the reason. Tasks that depend on it wait. `creel task start` continues it.",
    ),
    (
        "task update",
        "Changes the goal, the priority, the labels or other facts of a task. What you do not name stays.",
    ),
    (
        "task depend",
        "Makes a task wait for another one. creel refuses a circle and names the tasks in it.",
    ),
    (
        "task remove",
        "Removes a task. Tasks that depended on it no longer do, so they may become ready.",
    ),
    (
        "worker",
        "Takes tasks from the queue and runs a session for each. A task is completed when its session is; every other end blocks \
         it, with the reason. Without a NATS server, the queue is the project's own, and all workers on this machine share \
         it.\n\nWith --jobs, several sessions run at once, each in a git worktree and on a branch of its own; in a terminal, \
         the home screen shows them. If a worker dies, another one gets its task.",
    ),
    (
        "plan",
        "Runs a session in which the agent proposes tasks for the goal, with dependencies and types, and shows them as a tree. \
         You queue them, edit them, or say what should be different. Without a terminal, creel queues nothing and exits with \
         4, unless you add --yes.\n\nWith --session, creel shows what an earlier session proposed.",
    ),
    (
        "worktree",
        "A session that runs with --worktree works in a folder and on a branch of its own, in .creel/worktrees. creel removes \
         nothing that has uncommitted changes, or commits that no branch has.",
    ),
    (
        "worktree list",
        "Lists each worktree with its branch, its session, and whether anything in it is uncommitted.",
    ),
    (
        "worktree open",
        "Starts your shell in the worktree; `exit` returns. Without a terminal, creel prints its folder.",
    ),
    (
        "worktree remove",
        "Removes the folders, and the branches that creel created if another branch has all of their commits. A worktree with \
         changes stays, and creel says what is in it.",
    ),
    (
        "worktree prune",
        "Removes the worktrees that ended and killed sessions left behind, if everything in them is committed. --dry-run only \
         lists them.",
    ),
    (
        "submit",
        "Runs the checks at before_submit; by default, creel pushes the branch and opens a pull request. A check that fails can \
         send the agent what to repair; then all checks run again. What still fails waits for you, and the branch stays as it \
         is.\n\nThe work is that of the session, or without one, the current branch of this folder.",
    ),
    (
        "merge",
        "Runs the checks at before_merge, then merges: on a forge by pull request, once its checks have passed; otherwise into the \
         base branch, which creel pushes if there is a remote. Nothing merges past a check that failed or could not be \
         read.\n\nWith --queue, creel merges the branches of all completed tasks, each with what was merged before it, and \
         only if its checks pass. A task that does not fit goes back to the queue with the reason.",
    ),
    (
        "init",
        "Looks at the project and the installed agents, asks what it cannot know, and writes creel.yaml with a check that runs \
         your tests. It does not overwrite a config. With --template, it writes a config to start from.",
    ),
    (
        "check",
        "Reads the config and prints what creel would do: the agent, the limits, the hooks at each point. It reports all mistakes \
         at once, each with its line and a suggestion, and programs that are missing. It runs nothing that the config names.",
    ),
    (
        "config",
        "The config is creel.yaml, creel.yml, creel.json or .creel/config.yaml, in this folder or above.",
    ),
    (
        "config example",
        "Prints a config with every key, its default and an explanation.",
    ),
    (
        "config path",
        "Prints the path of the config that creel uses in this folder. Without a config, it exits with 2.",
    ),
    (
        "agents",
        "Lists the agents that creel knows and those of your config: how creel runs each, its version, and for missing ones how to \
         install them. creel installs nothing.",
    ),
    (
        "trust",
        "A config runs commands, so creel asks before it runs any. This command shows them and trusts the config as it is now; if it \
         changes, creel asks again.",
    ),
    (
        "untrust",
        "creel asks again before it runs a hook or an agent of this config.",
    ),
    (
        "mcp",
        "Gives an agent creel's tools: tasks, stop hooks, the status of the session. creel passes this server to the agents that it \
         runs. Start it yourself for an agent that you run outside creel.",
    ),
    (
        "schema",
        "Prints the JSON Schema of creel.yaml. With it, an editor completes keys and marks mistakes.",
    ),
    (
        "completions",
        "Prints a script that completes creel's commands and options in your shell. The examples show where each shell looks for it.",
    ),
    (
        "man",
        "Prints this manual as a page for man(1), or writes a page for every command into a folder.",
    ),
    (
        "help",
        "Prints the help of a command, as with --help, or the text of a topic.",
    ),
];
