//! A rebase that is interrupted: by a timeout, by the user, or by the death of creel.

use std::{path::Path, process::Command, time::Duration};

use creel::{
    engine::{effect::SubmissionFacts, hooks::verdict::RunEnd, time::TimeSpan},
    hooks::builtin::recover,
    process::sweep,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Memory, alive_with_mark, eventually, pid_in,
    repo::{Repo, failure, job},
};

/// A branch whose rebase hangs after its first commit, and writes a file when it does.
fn that_hangs() -> Repo {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "first of two");
    repo.commit("a.txt", "one\ntwo\n", "second of two");
    repo.elsewhere("main", "a.txt", "zero\none\n");
    let hold = format!("echo $$ > '{}'; exec sleep 1000", repo.at("held").display());
    repo.git(&["config", "merge.hold.driver", &hold]);
    std::fs::write(repo.work.join(".git/info/attributes"), "a.txt merge=hold\n")
        .expect("attributes");
    repo
}

/// From now on the rebase does not hang.
fn no_longer(repo: &Repo) {
    std::fs::remove_file(repo.work.join(".git/info/attributes")).expect("attributes");
}

#[tokio::test]
async fn a_rebase_that_takes_too_long_is_undone() {
    let repo = that_hangs();
    let before = repo.before();
    let mut job = job("rebase_on_main", SubmissionFacts::default());
    job.hook.timeout = TimeSpan::secs(6);
    let result = repo
        .run_job(&job, &mut Memory::default(), &CancellationToken::new())
        .await;
    assert_eq!(result.end, RunEnd::TimedOut);
    let message = result.outcome.expect("an outcome").message;
    assert!(
        message.starts_with("`git rebase` timed out; the branch is at "),
        "{message}"
    );
    repo.is_as(&before);
    repo.is_unchanged();
}

#[tokio::test]
async fn a_rebase_that_is_cancelled_is_undone() {
    let repo = that_hangs();
    let before = repo.before();
    let (job, cancel) = (
        job("rebase_on_main", SubmissionFacts::default()),
        CancellationToken::new(),
    );
    let mut memory = Memory::default();
    let (result, held) = tokio::join!(repo.run_job(&job, &mut memory, &cancel), async {
        let held = pid_in(&repo.at("held")).await;
        cancel.cancel();
        held
    });
    assert_eq!((result.end, result.outcome), (RunEnd::Cut, None));
    assert!(!crate::support::lives(held));
    repo.is_as(&before);
    repo.is_unchanged();
}

#[tokio::test]
async fn a_rebase_that_was_dropped_is_undone_by_the_next_hook() {
    let repo = that_hangs();
    let before = repo.before();
    let (job, cancel) = (
        job("rebase_on_main", SubmissionFacts::default()),
        CancellationToken::new(),
    );
    let (mut memory, held) = (Memory::default(), repo.at("held"));
    tokio::select! {
        result = repo.run_job(&job, &mut memory, &cancel) => panic!("it must not end: {result:?}"),
        _ = pid_in(&held) => {}
    }
    assert!(
        repo.work.join(".git/rebase-merge").exists(),
        "it is in the middle"
    );
    no_longer(&repo);
    let submission = SubmissionFacts {
        base_branch: Some("work".into()),
        ..SubmissionFacts::default()
    };
    failure(&repo.run_with("merge_pr", submission).await);
    repo.is_as(&before);
    repo.is_unchanged();
}

/// Whether a rebase has reached this stage.
fn has_come_to(repo: &Repo, moment: usize) -> bool {
    let git = repo.work.join(".git");
    match moment {
        0 => git.join("creel-rebase.json").exists(),
        1 => git.join("rebase-merge").exists(),
        2 => git.join("rebase-merge/orig-head").exists(),
        commits => {
            let done = std::fs::read_to_string(git.join("rebase-merge/msgnum"));
            done.is_ok_and(|text| text.trim().parse().is_ok_and(|n: usize| n >= commits - 2))
        }
    }
}

#[tokio::test]
async fn nothing_is_lost_wherever_a_rebase_is_interrupted() {
    for moment in [0, 1, 2, 3, 5, 8] {
        let repo = Repo::new();
        for n in 0..8 {
            repo.commit(&format!("{n}.txt"), "x\n", &format!("commit {n}"));
        }
        let newest = repo.elsewhere("main", "c.txt", "c\n");
        let before = repo.before();
        let (job, cancel) = (
            job("rebase_on_main", SubmissionFacts::default()),
            CancellationToken::new(),
        );
        let mut memory = Memory::default();
        tokio::select! {
            _ = repo.run_job(&job, &mut memory, &cancel) => {}
            () = async { while !has_come_to(&repo, moment) { tokio::task::yield_now().await } } => {}
        }
        recover(&repo.work).await;
        repo.lost_nothing_since(&before);
        repo.is_unchanged();
        // Git may have finished before the interruption.
        if !repo
            .try_git(
                &repo.work,
                &["merge-base", "--is-ancestor", &newest, "HEAD"],
            )
            .0
        {
            repo.is_as(&before);
        }
        let again = repo.run("rebase_on_main").await;
        assert_eq!(
            again.end,
            RunEnd::Exit(0),
            "cut off at {moment}, it can be done again: {again:?}"
        );
        assert_eq!(
            repo.git(&["rev-list", "--count", &format!("{newest}..HEAD")]),
            "8"
        );
    }
}

/// The part of the next test that is killed.
#[tokio::test]
#[ignore = "runs in a process of its own, as a part of the next test"]
async fn part_that_is_killed() {
    let Ok(folder) = std::env::var("CREEL_TEST_REPO") else {
        return;
    };
    let repo = Repo::that_is_at(
        Path::new(&folder),
        std::env::var("CREEL_TEST_MARK").expect("a mark"),
    );
    repo.run("rebase_on_main").await;
}

#[tokio::test]
async fn a_killed_creel_leaves_a_rebase_that_the_next_one_undoes() {
    for gently in [false, true] {
        let repo = that_hangs();
        let before = repo.before();
        let mut creel = Command::new(std::env::current_exe().expect("this test"))
            .args(["--ignored", "--exact", "git::rescue::part_that_is_killed"])
            .env("CREEL_TEST_REPO", repo.at(""))
            .env("CREEL_TEST_MARK", &repo.mark)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("a process");
        pid_in(&repo.at("held")).await;
        assert_eq!(
            recover(&repo.work)
                .await
                .map(|said| said.contains("wait for it")),
            Some(true),
            "it is at work"
        );
        creel.kill().expect("killed");
        creel.wait().expect("gone");
        if gently {
            sweep::end_all(&repo.mark, &[], Duration::from_secs(2)).await;
        } else {
            sweep::kill_all_now(&repo.mark, &[]);
        }
        eventually("git is gone", || alive_with_mark(&repo.mark).is_empty()).await;
        assert!(
            repo.work.join(".git/rebase-merge").exists(),
            "it is in the middle"
        );
        let said = recover(&repo.work).await.expect("something was done");
        assert!(
            said.starts_with("a rebase of `work` was interrupted. creel undid it"),
            "{said}"
        );
        repo.is_as(&before);
        repo.is_unchanged();
        assert_eq!(recover(&repo.work).await, None, "once is enough");
    }
}

/// What creel leaves if it is killed before its rebase has begun.
fn note_of(repo: &Repo) {
    let note = serde_json::json!({
        "branch": "work",
        "commit": repo.here("work"),
        "onto": repo.on_remote("main"),
        "pid": std::process::id(),
        "started": null,
    });
    std::fs::write(repo.work.join(".git/creel-rebase.json"), note.to_string()).expect("a note");
}

#[tokio::test]
async fn a_later_rebase_of_the_user_is_left_alone() {
    let repo = Repo::new();
    repo.commit("a.txt", "mine\n", "mine");
    repo.elsewhere("main", "a.txt", "theirs\n");
    note_of(&repo);
    repo.git(&["fetch", "--quiet", "origin"]);
    assert!(
        !repo.try_git(&repo.work, &["rebase", "origin/main"]).0,
        "a conflict"
    );
    let status = repo.git(&["status"]);
    let said = recover(&repo.work).await.expect("it is said");
    assert!(said.contains("creel did not start"), "{said}");
    assert_eq!(repo.git(&["status"]), status);
}

#[tokio::test]
async fn a_finished_rebase_stays() {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "more");
    repo.elsewhere("main", "c.txt", "c\n");
    note_of(&repo);
    repo.git(&["fetch", "--quiet", "origin"]);
    repo.git(&["rebase", "--quiet", "origin/main"]);
    let before = repo.before();
    assert_eq!(recover(&repo.work).await, None);
    repo.is_as(&before);
}

#[tokio::test]
async fn a_rebase_interrupted_at_its_start_is_undone() {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "more");
    for (name, text) in [
        ("whole.txt", "w\n"),
        ("begun.txt", "b\n"),
        ("own.txt", "theirs\n"),
    ] {
        repo.elsewhere("main", name, text);
    }
    repo.git(&["fetch", "--quiet", "origin"]);
    note_of(&repo);
    let before = repo.before();
    let state = repo.work.join(".git/rebase-merge");
    std::fs::create_dir(&state).expect("a folder");
    std::fs::write(state.join("head-name"), "").expect("a file");
    for name in ["index.lock", "AUTO_MERGE.lock"] {
        std::fs::write(repo.work.join(".git").join(name), "").expect("a lock");
    }
    // Files that git had written, completely and partly, and a file of the user.
    for (name, text) in [
        ("whole.txt", "w\n"),
        ("begun.txt", ""),
        ("own.txt", "own\n"),
    ] {
        std::fs::write(repo.work.join(name), text).expect("a file");
    }
    assert!(recover(&repo.work).await.is_some());
    repo.is_as(&before);
    assert_eq!(repo.git(&["status", "--porcelain"]), "?? own.txt");
}

#[tokio::test]
async fn a_folder_without_git_has_nothing_to_recover() {
    let folder = crate::support::folder();
    assert_eq!(recover(folder.path()).await, None);
}
