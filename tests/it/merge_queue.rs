//! The merge queue: what it checks, in batches, and who merges.

use std::fs;

use crate::{
    support::git_project::{git, repository, with_remote},
    task_branches::{add, drain, files, task, tasks, with_agent},
};

#[test]
fn what_a_check_leaves_behind_is_blamed_on_no_task_and_on_no_base() {
    let check = "test -e .env && test -e .made && test ! -e .ready || exit 1; [ ! -e one.txt ] || touch .ready";
    let more = format!(
        "submit: {{ test_command: '{check}' }}\nworktree: {{ copy: [.env], setup: ['touch .made'] }}"
    );
    let project = with_agent(&more, with_remote);
    let exclude = project.root().join(".git/info/exclude");
    fs::write(exclude, ".made\n").expect("it is ours");
    project.write(".env", "");
    for name in ["one", "two"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "1");
    // The check of the first task leaves a file behind, and so does that of the last one.
    for next in ["three", "four"] {
        let merged = project.creel(&["merge", "--queue"]);
        assert_eq!(merged.code, 0, "{}", merged.err);
        assert!(
            merged.err.contains("once more, in a new worktree"),
            "{}",
            merged.err
        );
        add(&project, &format!("write {next}.txt"), &[]);
        drain(&project, "1");
    }
    let on_main = files(&project, "origin/main");
    assert!(
        ["one", "two", "three"]
            .iter()
            .all(|name| on_main.contains(name)),
        "{on_main}"
    );
}

#[test]
fn the_checks_of_sessions_run_on_what_is_merged_and_none_runs_twice() {
    let check = "echo ran >> ../../../runs; test ! -e one.txt || test ! -e two.txt";
    let more = format!(
        "checks: ['{check}']\nhooks: {{ before_merge: [{{ name: same, command: '{check}' }}] }}"
    );
    let project = with_agent(&more, repository);
    for name in ["one", "two"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "2");
    assert!(
        tasks(&project)
            .iter()
            .all(|task| task["state"] == "completed")
    );
    fs::remove_file(project.root().join("runs")).expect("the checks ran");
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 1, "{}", merged.err);
    // The base, the first task, and the second one twice: in a used worktree and in a new one.
    assert_eq!(project.read("runs").lines().count(), 4, "{}", merged.err);
    let sent = task(&project, "2");
    assert!(
        sent["feedback"]
            .as_str()
            .is_some_and(|why| why.contains("does not pass (exit 1")),
        "{sent}"
    );
    assert!(git(&project, &["ls-files"]).contains("one.txt"));
}
