//! Sessions in git worktrees of their own.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::Value;

use crate::support::{
    git_project::{config, git, remote, repository, with_remote},
    project::{Project, Ran, Started, until},
};

/// An agent that commits a file, and says that it is done.
const COMMITS: &str = "echo work > made.txt && git add made.txt && git commit -qm made && echo \
                       '<promise>COMPLETE</promise>'";

fn folder(project: &Project, name: &str) -> PathBuf {
    project.root().join(".creel/worktrees").join(name)
}

fn worktrees(project: &Project) -> Vec<Value> {
    serde_json::from_str(&project.creel(&["worktree", "list", "--json"]).out).expect("JSON")
}

fn names(project: &Project) -> Vec<String> {
    worktrees(project)
        .iter()
        .map(|it| it["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Makes a commit on the remote's main that the project has not fetched.
fn somebody_pushes(project: &Project, file: &str) {
    let other = project.root().with_file_name("other").display().to_string();
    git(project, &["clone", "--quiet", &remote(project), &other]);
    fs::write(format!("{other}/{file}"), "new\n").expect("a file");
    git(project, &["-C", &other, "add", file]);
    git(project, &["-C", &other, "commit", "--quiet", "-m", file]);
    git(
        project,
        &["-C", &other, "push", "--quiet", "origin", "main"],
    );
}

#[test]
fn a_session_works_on_a_branch_of_its_own_and_leaves_only_the_branch() {
    let project = repository(&config(COMMITS, "worktree: true"));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/s"]),
        "made\nfirst"
    );
    assert_eq!(git(&project, &["log", "--format=%s", "main"]), "first");
    assert!(!project.root().join("made.txt").exists());
    assert!(!folder(&project, "s").exists());
    assert!(
        ran.err.contains("the work is on branch `creel/s`"),
        "{}",
        ran.err
    );
    let started = &project.kind("session_started")[0];
    assert_eq!(started["worktree"]["branch"], "creel/s");
    assert_eq!(started["cwd"], folder(&project, "s").display().to_string());
}

/// A worktree of session `s`, as git leaves it if it is killed before it has written this file.
fn half_made(project: &Project, without: &str) {
    let reason = format!("creel session s in {}", project.root().display());
    git(
        project,
        &[
            "update-ref",
            "--create-reflog",
            "-m",
            &reason,
            "refs/heads/creel/s",
            "HEAD",
            "",
        ],
    );
    let add = [
        "worktree",
        "add",
        "--quiet",
        "--lock",
        "--reason",
        &reason,
        ".creel/worktrees/s",
        "creel/s",
    ];
    git(project, &add);
    let entry = project.root().join(".git/worktrees/s");
    fs::remove_file(entry.join(without)).expect("git has written it");
    if without == "gitdir" {
        fs::remove_dir_all(folder(project, "s")).expect("git makes it later");
        return;
    }
    // Files come after all of them.
    for file in fs::read_dir(folder(project, "s"))
        .expect("a folder")
        .flatten()
        .map(|file| file.path())
    {
        if !file.ends_with(".git") && (without != "index" || file.ends_with("creel.yaml")) {
            fs::remove_file(file).expect("a file");
        }
    }
}

#[test]
fn a_worktree_that_git_did_not_finish_is_in_nobodys_way() {
    for without in ["HEAD", "commondir", "gitdir", "index"] {
        let project = repository(&config(COMMITS, "worktree: true"));
        half_made(&project, without);
        let ran = project.creel(&["worktree", "list"]);
        assert_eq!(ran.code, 0, "{without}: {}", ran.err);
        let ran = project.creel(&["worktree", "prune"]);
        assert_eq!(
            (ran.code, names(&project).len()),
            (0, 0),
            "{without}: {}",
            ran.err
        );
        let entries =
            fs::read_dir(project.root().join(".git/worktrees")).map_or(0, Iterator::count);
        assert_eq!(entries, 0, "{without}: {}", ran.err);
        let ran = project.run();
        assert_eq!(ran.code, 0, "{without}: {}", ran.err);
    }
}

#[test]
fn a_session_starts_with_all_files_and_one_branch_although_git_was_killed() {
    for without in ["HEAD", "commondir", "gitdir", "index"] {
        let project = repository(&config(COMMITS, "worktree: true"));
        half_made(&project, without);
        let ran = project.run();
        assert_eq!(ran.code, 0, "{without}: {}", ran.err);
        assert_eq!(
            git(
                &project,
                &["branch", "--list", "creel/*", "--format=%(refname:short)"]
            ),
            "creel/s",
            "{without}"
        );
        let made = git(&project, &["ls-tree", "-r", "--name-only", "creel/s"]);
        assert_eq!(made, ".gitignore\ncreel.yaml\nmade.txt", "{without}");
        assert_eq!(names(&project).len(), 0, "{without}: {}", ran.err);
    }
}

#[test]
fn a_project_whose_folder_is_no_text_gets_no_worktree() {
    use std::os::unix::ffi::OsStrExt as _;
    let project = repository(&config(COMMITS, ""));
    let odd = project
        .root()
        .with_file_name(std::ffi::OsStr::from_bytes(b"p\xff"));
    fs::rename(project.root(), &odd).expect("the file system takes any name");
    let creel = |args: &[&str]| {
        let ran = project
            .command(args)
            .current_dir(&odd)
            .output()
            .expect("creel starts");
        (
            ran.status.code(),
            String::from_utf8_lossy(&ran.stderr).into_owned(),
        )
    };
    let (code, said) = creel(&[
        "run",
        "--headless",
        "--trust",
        "--worktree",
        "-s",
        "s",
        "Do it.",
    ]);
    assert!(
        code == Some(2) && said.contains("not valid text"),
        "{code:?} {said}"
    );
    let (code, said) = creel(&["run", "--headless", "-s", "t", "Do it."]);
    assert_eq!(code, Some(0), "{said}");
    let entries = fs::read_dir(odd.parent().expect("a folder"))
        .expect("a folder")
        .count();
    assert_eq!(entries, 4, "nothing was made beside it");
}

#[test]
fn a_branch_that_another_made_is_never_taken_over() {
    let project = repository(&config(COMMITS, "worktree: true"));
    git(&project, &["branch", "creel/s"]);
    let before = git(&project, &["rev-parse", "creel/s"]);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(git(&project, &["rev-parse", "creel/s"]), before);
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/s-2"]),
        "made\nfirst"
    );
}

#[test]
fn work_in_a_broken_worktree_is_not_deleted() {
    let project = repository(&config(COMMITS, "worktree: true"));
    half_made(&project, "HEAD");
    fs::write(folder(&project, "s").join("work.txt"), "mine\n").expect("a file");
    let ran = project.creel(&["worktree", "prune"]);
    assert!(
        ran.code == 0 && ran.err.contains("`s` stays"),
        "{}",
        ran.err
    );
    assert_eq!(project.creel(&["worktree", "remove", "s"]).code, 1);
    assert!(folder(&project, "s").join("work.txt").exists());
}

#[test]
fn the_command_line_can_ask_for_a_worktree_and_name_it() {
    let project = repository(&config(COMMITS, ""));
    let ran = project.creel(&[
        "run",
        "--headless",
        "--trust",
        "-s",
        "s",
        "--worktree",
        "parser",
        "Write it.",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/parser"]),
        "made\nfirst"
    );
    // What cannot be a name is the prompt.
    let prompt = project.creel(&[
        "run",
        "--headless",
        "-s",
        "t",
        "--worktree",
        "Write the parser.",
    ]);
    assert_eq!(prompt.code, 0, "{}", prompt.err);
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/t"]),
        "made\nfirst"
    );
    let refused = project.creel(&["run", "--headless", "Write it.", "--worktree", "the parser"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused
            .err
            .contains("`the parser` cannot be the name of a worktree"),
        "{}",
        refused.err
    );
}

#[test]
fn a_worktree_starts_from_what_the_remote_has_now() {
    let project = with_remote(&config(COMMITS, "worktree: true"));
    somebody_pushes(&project, "theirs.txt");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/s"]),
        "made\ntheirs.txt\nfirst"
    );
    // The user's checkout does not move.
    assert_eq!(git(&project, &["log", "--format=%s", "HEAD"]), "first");
}

#[test]
fn an_unreachable_remote_is_named_and_its_last_state_counts() {
    let project = with_remote(&config(COMMITS, "worktree: true"));
    git(&project, &["fetch", "--quiet", "origin"]);
    fs::rename(remote(&project), format!("{}.away", remote(&project))).expect("it is there");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("as it was fetched last"), "{}", ran.err);
}

#[test]
fn setup_runs_before_the_agent_and_ignored_files_come_along() {
    let settings = "worktree: { setup: ['cat .env > .ready'], copy: [.env, missing] }";
    let project = repository(&config(
        &format!("grep -q SECRET .ready && {COMMITS}"),
        settings,
    ));
    project.write(".env", "SECRET=1\n");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("`missing` does not exist"), "{}", ran.err);
    assert!(ran.out.contains("setup 1 passed"), "{}", ran.out);
    // Ignored files do not count as changes.
    assert!(!folder(&project, "s").exists());
}

#[test]
fn a_failed_setup_asks_before_the_agent_starts() {
    let project = repository(&config(
        COMMITS,
        "worktree: { setup: ['echo broken; exit 3'] }",
    ));
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(project.kind("prompt_sent").is_empty());
    assert!(folder(&project, "s").exists());
}

#[test]
fn uncommitted_work_stays_until_it_is_committed() {
    let agent = "echo half > half.txt; echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(agent, "worktree: { keep: never }"));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err
            .contains("stays: it has uncommitted changes (half.txt)"),
        "{}",
        ran.err
    );
    assert_eq!(
        worktrees(&project)[0]["unsaved"],
        "uncommitted changes (half.txt)"
    );
    let refused = project.creel(&["worktree", "remove", "s"]);
    assert_eq!(refused.code, 1);
    assert!(folder(&project, "s").join("half.txt").exists());
    assert!(
        project
            .creel(&["worktree", "prune"])
            .err
            .contains("`s` stays: it has uncommitted changes")
    );
    let there = folder(&project, "s").display().to_string();
    git(&project, &["-C", &there, "add", "half.txt"]);
    git(&project, &["-C", &there, "commit", "--quiet", "-m", "half"]);
    let removed = project.creel(&["worktree", "remove", "s"]);
    assert_eq!(removed.code, 0, "{}", removed.err);
    assert!(
        removed.err.contains("its branch `creel/s` stays"),
        "{}",
        removed.err
    );
    assert_eq!(
        git(&project, &["log", "-1", "--format=%s", "creel/s"]),
        "half"
    );
}

#[test]
fn a_branch_goes_with_its_worktree_only_if_another_has_its_commits() {
    let project = repository(&config(COMMITS, "worktree: { keep: always }"));
    assert_eq!(project.run().code, 0);
    git(&project, &["merge", "--quiet", "creel/s"]);
    let removed = project.creel(&["worktree", "remove", "s"]);
    assert_eq!(removed.code, 0, "{}", removed.err);
    assert!(
        removed.err.contains("its merged branch `creel/s`"),
        "{}",
        removed.err
    );
    assert_eq!(git(&project, &["branch", "--list", "creel/*"]), "");
    assert_eq!(git(&project, &["log", "-1", "--format=%s"]), "made");
}

#[test]
fn commits_that_no_branch_has_keep_their_folder() {
    let agent = format!("git switch -q --detach && {COMMITS}");
    let project = repository(&config(&agent, "worktree: { keep: never }"));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("it has commits that no branch has"),
        "{}",
        ran.err
    );
    assert!(folder(&project, "s").join("made.txt").exists());
}

#[test]
fn a_branch_that_the_agent_switched_to_is_named_and_its_folder_stays() {
    let creel = env!("CARGO_BIN_EXE_creel");
    let agent = format!(
        "git switch -q -c other && {COMMITS} && {creel} status --json > ../../../status.json"
    );
    let project = repository(&config(&agent, "worktree: { keep: never }"));
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("the agent left the branch `creel/s`"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("with the branch `other` checked out"),
        "{}",
        ran.err
    );
    let status: Value = serde_json::from_str(&project.read("status.json")).expect("JSON");
    assert_eq!(status["branch"], "other", "{status}");
    let listed: Value =
        serde_json::from_str(&project.creel(&["sessions", "--json"]).out).expect("JSON");
    assert_eq!(listed[0]["branch"], "other", "{listed}");
    // The work is merged from where it is.
    let merged = project.creel(&["merge", "s", "--headless"]);
    assert_eq!(merged.code, 0, "{}{}", merged.out, merged.err);
    assert!(git(&project, &["log", "--format=%s", "main"]).contains("made"));
}

#[test]
fn problems_get_an_answer_before_anything_runs() {
    let refused = |project: &Project, args: &[&str], expected: &str| {
        let all: Vec<&str> = ["run", "--headless", "--trust"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let Ran { code, err, .. } = project.creel(&all);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(expected), "{err}");
        assert!(
            !project.root().join(".creel/sessions").exists(),
            "nothing has run"
        );
    };
    let settings = config(COMMITS, "worktree: true");
    refused(&Project::with(&settings), &[], "is not in a git repository");
    let empty = Project::with(&settings);
    git(&empty, &["init", "--quiet"]);
    refused(&empty, &[], "has no commit yet");
    let remote = repository(&config(
        COMMITS,
        "worktree: true\nsubmit: { remote: upstream }",
    ));
    refused(&remote, &[], "the remote `upstream` does not exist");
    let base = with_remote(&config(COMMITS, "worktree: { base: develop }"));
    refused(
        &base,
        &[],
        "there is no branch `develop` on `origin` or in this repository",
    );
    let taken = repository(&settings);
    git(&taken, &["branch", "creel/x"]);
    refused(
        &taken,
        &["--worktree", "x"],
        "the branch `creel/x` already exists",
    );
    taken.write(".creel/worktrees/y/file", "");
    refused(
        &taken,
        &["--worktree", "y"],
        "is not a worktree of this repository",
    );
}

#[test]
fn a_detached_head_without_a_remote_is_the_base() {
    let project = repository(&config(COMMITS, "worktree: true"));
    git(
        &project,
        &["commit", "--quiet", "--allow-empty", "-m", "second"],
    );
    git(&project, &["switch", "--quiet", "--detach", "HEAD^"]);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/s"]),
        "made\nfirst"
    );
}

#[test]
fn a_named_worktree_is_continued_and_not_shared() {
    let agent = "git commit -q --allow-empty -m more; until [ -e ../../../go ] || [ ! -e ../../../creel.yaml ]; do sleep \
                 0.02; done; echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(agent, "worktree: { keep: always }"));
    project.write("go", "");
    let run = |session: &str| {
        project.creel(&[
            "run",
            "--headless",
            "--trust",
            "-s",
            session,
            "--worktree",
            "w",
        ])
    };
    assert_eq!(run("one").code, 0);
    let second = run("two");
    assert_eq!(second.code, 0, "{}", second.err);
    assert!(
        second.err.contains("continuing in the worktree"),
        "{}",
        second.err
    );
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/w"]),
        "more\nmore\nfirst"
    );
    assert_eq!(worktrees(&project)[0]["session"], "two");
    fs::remove_file(project.root().join("go")).expect("it is there");
    let mut third =
        Started::of(project.command(&["run", "--json", "-s", "three", "--worktree", "w"]));
    third.wait_for("prompt_sent");
    let refused = run("four");
    assert_eq!(refused.code, 2);
    assert!(
        refused
            .err
            .contains("session `three` works in the worktree `w`"),
        "{}",
        refused.err
    );
    assert!(
        project
            .creel(&["worktree", "remove", "w"])
            .err
            .contains("session `three` works in")
    );
    assert!(
        project
            .creel(&["worktree", "prune"])
            .err
            .contains("session `three` works there")
    );
    project.write("go", "");
    assert_eq!(third.end().code, 0);
}

#[test]
fn a_killed_session_finds_its_worktree_again() {
    let agent = "[ -e kept.txt ] || { echo kept > kept.txt; touch ../../../begun; sleep 60; }; git add -A && git commit -qm \
                 kept && echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(agent, "worktree: true"));
    let session = project.start();
    until("the agent has begun", || {
        project.root().join("begun").exists()
    });
    session.kill();
    assert_eq!(worktrees(&project)[0]["state"], "stopped");
    let ran = project.creel(&["resume", "--headless", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/s"]),
        "kept\nfirst"
    );
}

#[test]
fn a_resumed_session_gets_a_removed_worktree_back() {
    let agent = format!("[ -e .ready ] || exit 1; [ -e ../../../go ] && {COMMITS}");
    let settings = "worktree: { setup: ['echo \"{{session}}\" > .ready'], copy: [.env] }\nmax_consecutive_errors: 1";
    let project = repository(&config(&agent, settings));
    project.write(".env", "SECRET=1\n");
    assert_eq!(project.run().code, 1);
    let removed = project.creel(&["worktree", "prune"]);
    assert!(removed.err.contains("removed `s`"), "{}", removed.err);
    assert!(!folder(&project, "s").exists());
    project.write("go", "");
    let ran = project.creel(&["resume", "--headless", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("checking out the worktree"), "{}", ran.err);
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/s"]),
        "made\nfirst"
    );
}

#[test]
fn whatever_a_kill_leaves_behind_is_recognised_and_removed() {
    let project = repository(&config(COMMITS, "worktree: { setup: ['true'] }"));
    assert_eq!(project.creel(&["trust"]).code, 0);
    for round in 0..12_u64 {
        let mut command = project.command(&["run", "--headless", "-s", &format!("k{round}")]);
        let mut child = command
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("creel starts");
        // Spread over the start of the session, however long that takes here.
        std::thread::sleep(Duration::from_millis(round * 7));
        let _ = child.kill();
        let _ = child.wait();
    }
    until("nothing runs any more", || {
        !project.creel(&["worktree", "list"]).out.contains("running")
    });
    // A git or an agent that the kill left running can still be at work.
    let mut said = String::new();
    let is_removed = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        let pruned = project.creel(&["worktree", "prune"]);
        assert_eq!(pruned.code, 0, "{}", pruned.err);
        said = pruned.err;
        names(&project).is_empty()
    });
    assert!(is_removed, "{:?}: {said}", names(&project));
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    git(&project, &["fsck", "--no-progress"]);
    assert_eq!(project.run().code, 0);
}

#[test]
fn trust_in_a_project_covers_its_worktrees_and_nothing_else() {
    let project = repository(&config(COMMITS, "worktree: { keep: always }"));
    assert_eq!(project.run().code, 0);
    let run_in = |folder: &PathBuf| {
        let mut command = project.command(&["run", "--headless", "Again."]);
        Ran::of(&command.current_dir(folder).output().expect("creel starts"))
    };
    let there = folder(&project, "s");
    fs::write(
        there.join("creel.yaml"),
        config("echo '<promise>COMPLETE</promise>'", ""),
    )
    .expect("a file");
    let changed = run_in(&there);
    assert_eq!(changed.code, 2);
    assert!(
        changed.err.contains("You have not trusted it yet"),
        "{}",
        changed.err
    );
    git(
        &project,
        &[
            "-C",
            &there.display().to_string(),
            "checkout",
            "--quiet",
            "creel.yaml",
        ],
    );
    let same = project
        .command(&["hooks", "list"])
        .current_dir(&there)
        .output()
        .expect("creel starts");
    assert!(same.status.success());
    assert_eq!(project.creel(&["check"]).code, 0);
    // A copy that only claims to be a worktree of the project.
    let forged = project.root().with_file_name("forged");
    let entry = forged.join("entry/worktrees/x");
    fs::create_dir_all(&entry).expect("folders");
    fs::copy(there.join("creel.yaml"), forged.join("creel.yaml")).expect("a copy");
    fs::write(
        forged.join(".git"),
        format!("gitdir: {}\n", entry.display()),
    )
    .expect("a file");
    fs::write(
        entry.join("gitdir"),
        format!("{}\n", forged.join(".git").display()),
    )
    .expect("a file");
    let reason = format!("creel session s in {}\n", project.root().display());
    fs::write(entry.join("locked"), reason).expect("a file");
    let untrusted = run_in(&forged);
    assert_eq!(untrusted.code, 2);
    assert!(
        untrusted.err.contains("You have not trusted it yet"),
        "{}",
        untrusted.err
    );
}

#[test]
fn the_projects_sessions_are_seen_from_within_a_worktree() {
    let project = repository(&config(COMMITS, "worktree: { keep: always }"));
    assert_eq!(project.run().code, 0);
    let mut command = project.command(&["sessions", "--json"]);
    let seen = Ran::of(
        &command
            .current_dir(folder(&project, "s"))
            .output()
            .expect("creel starts"),
    );
    assert!(seen.out.contains("\"name\": \"s\""), "{}", seen.out);
    let opened = project.creel(&["worktree", "open", "s"]);
    assert_eq!(
        opened.out.trim(),
        folder(&project, "s").display().to_string()
    );
}

#[test]
fn a_project_below_the_top_of_its_repository_keeps_its_place() {
    let project = Project::new();
    git(&project, &["init", "--quiet", "--initial-branch=main"]);
    project.write(
        "app/creel.yaml",
        &config(
            "pwd > where.txt; echo '<promise>COMPLETE</promise>'",
            "worktree: true",
        ),
    );
    git(&project, &["add", "--all"]);
    git(
        &project,
        &[
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@example.com",
            "commit",
            "--quiet",
            "-m",
            "first",
        ],
    );
    let mut command = project.command(&["run", "--headless", "--trust", "-s", "s"]);
    let ran = Ran::of(
        &command
            .current_dir(project.root().join("app"))
            .output()
            .expect("creel starts"),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let there = project.root().join("app/.creel/worktrees/s/app");
    assert_eq!(
        fs::read_to_string(there.join("where.txt"))
            .expect("it ran there")
            .trim(),
        there.display().to_string()
    );
}

#[test]
fn submodules_and_a_sparse_checkout_come_along() {
    let agent = "ls > ../seen; cat lib/lib.txt >> ../seen; echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(agent, "worktree: true"));
    git(
        &project,
        &["config", "--global", "protocol.file.allow", "always"],
    );
    let library = project
        .root()
        .with_file_name("library")
        .display()
        .to_string();
    git(
        &project,
        &["init", "--quiet", "--initial-branch=main", &library],
    );
    fs::write(format!("{library}/lib.txt"), "from the library\n").expect("a file");
    git(&project, &["-C", &library, "add", "lib.txt"]);
    git(
        &project,
        &["-C", &library, "commit", "--quiet", "-m", "lib"],
    );
    git(&project, &["submodule", "--quiet", "add", &library, "lib"]);
    project.write("big/huge.txt", "huge\n");
    project.write("small/little.txt", "little\n");
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "-m", "all"]);
    git(&project, &["sparse-checkout", "set", "small"]);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let seen = project.read(".creel/worktrees/seen");
    assert!(seen.contains("from the library"), "{seen}");
    assert!(seen.contains("small") && !seen.contains("big"), "{seen}");
    assert!(!folder(&project, "s").exists(), "{}", ran.err);
}

#[test]
fn two_sessions_work_at_the_same_time() {
    let agent = "touch ../../../$CREEL_SESSION; until [ -e ../../../one ] && [ -e ../../../two ] || [ ! -e ../../../creel.yaml \
                 ]; do sleep 0.02; done; echo $CREEL_SESSION > mine.txt; git add -A; git commit -qm mine; echo \
                 '<promise>COMPLETE</promise>'";
    let project = repository(&config(agent, "worktree: true"));
    assert_eq!(project.creel(&["trust"]).code, 0);
    let start = |name: &str| Started::of(project.command(&["run", "--json", "-s", name]));
    let (one, two) = (start("one"), start("two"));
    assert_eq!((one.end().code, two.end().code), (0, 0));
    assert_eq!(git(&project, &["show", "creel/one:mine.txt"]), "one");
    assert_eq!(git(&project, &["show", "creel/two:mine.txt"]), "two");
}

// Nothing is lost

#[test]
fn a_worktree_that_lost_its_git_file_is_not_taken_for_the_users_checkout() {
    let project = repository(&config(COMMITS, "worktree: { keep: always }"));
    assert_eq!(project.run().code, 0);
    fs::remove_file(folder(&project, "s").join(".git")).expect("it is there");
    assert_eq!(worktrees(&project)[0]["unsaved"], "lost its `.git` file");
    for args in [
        &["run", "--headless", "--worktree", "s", "x"][..],
        &["resume", "--headless", "s", "-n", "30"],
    ] {
        let refused = project.creel(args);
        assert_ne!(refused.code, 0, "{}", refused.out);
    }
    let kept = project.creel(&["worktree", "remove", "s"]);
    assert_eq!(kept.code, 1, "{}", kept.err);
    assert_eq!(project.creel(&["worktree", "prune"]).code, 0);
    assert!(folder(&project, "s").join("made.txt").exists());
    assert_eq!(git(&project, &["symbolic-ref", "--short", "HEAD"]), "main");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
}

#[test]
fn an_interrupted_removal_does_not_take_later_work_with_it() {
    let project = repository(&config(COMMITS, "worktree: { keep: always }"));
    assert_eq!(project.run().code, 0);
    let there = folder(&project, "s");
    let entry = project.root().join(".git/worktrees/s/creel-removes-this");
    fs::write(&entry, "").expect("a file");
    fs::write(there.join("precious.txt"), "precious").expect("a file");
    assert_eq!(project.creel(&["worktree", "remove", "s"]).code, 1);
    // Also if the removal has deleted the `.git` file first.
    fs::remove_file(there.join(".git")).expect("it is there");
    assert_eq!(project.creel(&["worktree", "remove", "s"]).code, 1);
    fs::remove_file(there.join("precious.txt")).expect("it is there");
    fs::remove_file(there.join(".git")).expect("it is there");
    // Deleted files alone are those of the removal.
    fs::remove_file(there.join("made.txt")).expect("it is there");
    assert_eq!(project.creel(&["worktree", "remove", "s"]).code, 0);
    assert_eq!(
        git(&project, &["log", "-1", "--format=%s", "creel/s"]),
        "made"
    );
}

#[test]
fn commits_in_a_submodule_keep_the_folder() {
    let agent = "cd lib && git config user.name T && git config user.email t@example.com && git switch -qc more && echo x > x \
                 && git add x && git commit -qm x && cd .. && git commit -qam pointer && echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(agent, "worktree: { keep: never }"));
    git(
        &project,
        &["config", "--global", "protocol.file.allow", "always"],
    );
    let library = project
        .root()
        .with_file_name("library")
        .display()
        .to_string();
    git(
        &project,
        &["init", "--quiet", "--initial-branch=main", &library],
    );
    git(
        &project,
        &[
            "-C",
            &library,
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "lib",
        ],
    );
    git(&project, &["submodule", "--quiet", "add", &library, "lib"]);
    git(&project, &["commit", "--quiet", "-m", "lib"]);
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err
            .contains("commits there that its remote does not have"),
        "{}",
        ran.err
    );
    assert!(folder(&project, "s").join("lib/x").exists());
}

#[test]
fn branches_of_the_user_are_never_deleted() {
    let agent = format!("{COMMITS}; git switch -q develop");
    let project = repository(&config(&agent, "worktree: { keep: always }"));
    git(&project, &["branch", "develop"]);
    assert_eq!(project.run().code, 0);
    assert_eq!(project.creel(&["worktree", "prune"]).code, 0);
    assert!(!folder(&project, "s").exists());
    assert_eq!(
        git(&project, &["branch", "--list", "develop", "creel/s"])
            .lines()
            .count(),
        2
    );
}

#[test]
fn worktrees_of_the_user_and_loose_commits_survive_a_missing_folder() {
    let agent = format!("git switch -q --detach && {COMMITS}");
    let project = repository(&config(&agent, "worktree: { keep: never }"));
    let own = project.root().with_file_name("own");
    git(
        &project,
        &[
            "worktree",
            "add",
            "--quiet",
            "--detach",
            &own.display().to_string(),
        ],
    );
    assert_eq!(project.run().code, 0);
    let away = own.with_file_name("away");
    fs::rename(&own, &away).expect("it is there");
    fs::remove_dir_all(folder(&project, "s")).expect("it is there");
    let pruned = project.creel(&["worktree", "prune"]);
    assert!(
        pruned
            .err
            .contains("`s` stays: it has commits that no branch has"),
        "{}",
        pruned.err
    );
    fs::rename(&away, &own).expect("it is there");
    git(&project, &["-C", &own.display().to_string(), "status"]);
}

#[test]
fn a_resumed_session_does_not_share_its_worktree() {
    let agent = "[ -e ../../../go ] || exit 1; touch ../../../begun-$CREEL_SESSION; until [ -e ../../../end ] || [ ! -e \
                 ../../../creel.yaml ]; do sleep 0.02; done; echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(
        agent,
        "worktree: { keep: always }\nmax_consecutive_errors: 1",
    ));
    let run = |session: &'static str| {
        [
            "run",
            "--json",
            "--trust",
            "-s",
            session,
            "--worktree",
            "w",
            "x",
        ]
    };
    assert_eq!(project.creel(&run("one")).code, 1);
    project.write("go", "");
    let two = Started::of(project.command(&run("two")));
    until("the second has begun", || {
        project.root().join("begun-two").exists()
    });
    let refused = project.creel(&["resume", "--headless", "one"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused
            .err
            .contains("session `two` works in the worktree `w`"),
        "{}",
        refused.err
    );
    project.write("end", "");
    assert_eq!(two.end().code, 0);
    fs::remove_file(project.root().join("end")).expect("it is there");
    let one = Started::of(project.command(&["resume", "--json", "one"]));
    until("the first has begun", || {
        project.root().join("begun-one").exists()
    });
    assert!(
        project
            .creel(&["worktree", "remove", "w"])
            .err
            .contains("session `one` works in")
    );
    project.write("end", "");
    assert_eq!(one.end().code, 0);
}

#[test]
fn of_several_starts_in_one_worktree_one_runs() {
    let agent = "touch ../../../ran-$CREEL_SESSION; until [ -e ../../../end ] || [ ! -e ../../../creel.yaml ]; do sleep 0.02; \
                 done; echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(agent, "worktree: { keep: always }"));
    project.write("end", "");
    assert_eq!(
        project
            .creel(&[
                "run",
                "--headless",
                "--trust",
                "-s",
                "first",
                "--worktree",
                "w",
                "x"
            ])
            .code,
        0
    );
    fs::remove_file(project.root().join("end")).expect("it is there");
    let start = |name: &str| {
        let mut command =
            project.command(&["run", "--headless", "-s", name, "--worktree", "w", "x"]);
        command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("creel starts")
    };
    let mut all: Vec<_> = ["a", "b", "c"].map(start).into();
    // The refused ones end at once.
    let mut codes = Vec::new();
    until("two are refused", || {
        all.retain_mut(|child| match child.try_wait().expect("a child") {
            Some(status) => {
                codes.push(status.code());
                false
            }
            None => true,
        });
        all.len() == 1
    });
    assert_eq!(codes, [Some(2), Some(2)]);
    project.write("end", "");
    assert!(all[0].wait().expect("it ends").success());
}

#[test]
fn a_failed_setup_is_tried_again() {
    let settings = "worktree: { setup: ['test -e ../../../tools'] }\nmax_consecutive_errors: 1";
    let project = repository(&config(
        &format!("[ -e ../../../go ] && {COMMITS}"),
        settings,
    ));
    project.write("tools", "");
    assert_eq!(project.run().code, 1);
    assert_eq!(project.creel(&["worktree", "remove", "s"]).code, 0);
    fs::remove_file(project.root().join("tools")).expect("it is there");
    project.write("go", "");
    for _ in 0..2 {
        let refused = project.creel(&["resume", "--headless", "s"]);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(
            refused.err.contains("the worktree is not ready"),
            "{}",
            refused.err
        );
    }
    project.write("tools", "");
    assert_eq!(project.creel(&["resume", "--headless", "s"]).code, 0);
}

#[test]
fn a_folder_beside_the_project_works_too() {
    let agent = format!("[ -e $CREEL_PROJECT/go ] && {COMMITS}");
    let project = repository(&config(
        &agent,
        "worktree: { folder: ../trees }\nmax_consecutive_errors: 1",
    ));
    assert_eq!(project.run().code, 1);
    let trees = project.root().with_file_name("trees");
    assert!(trees.join("s").exists());
    fs::remove_dir_all(trees.join("s")).expect("it is there");
    project.write("go", "");
    let ran = project.creel(&["resume", "--headless", "s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        git(&project, &["log", "-1", "--format=%s", "creel/s"]),
        "made"
    );
}
