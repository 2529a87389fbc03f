//! `rebase_on_main`.

use creel::engine::effect::SubmissionFacts;
use expect_test::expect;

use crate::support::repo::{Repo, failure, hook_of, outcome, skipped, success};

/// A branch and `main` with conflicting changes to `a.txt`.
fn in_conflict() -> Repo {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "harmless");
    repo.commit("a.txt", "mine\n", "mine");
    repo.elsewhere("main", "a.txt", "theirs\n");
    repo
}

#[tokio::test]
async fn a_branch_that_is_behind_is_rebased() {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "more");
    let newest = repo.elsewhere("main", "c.txt", "c\n");
    let before = repo.before();
    let result = repo.run("rebase_on_main").await;
    let message = &success(&result).message;
    assert!(
        message.starts_with("rebased 1 commit of `work` onto `origin/main`"),
        "{message}"
    );
    assert_eq!(repo.git(&["rev-parse", "HEAD~1"]), newest);
    assert!(
        result.stdout.contains("$ git fetch --no-tags -- origin "),
        "{}",
        result.stdout
    );
    assert!(!result.stderr.contains("hint:"), "{}", result.stderr);
    assert!(result.file.is_some());
    repo.lost_nothing_since(&before);
    repo.is_clean();
}

#[tokio::test]
async fn an_up_to_date_branch_is_left_alone() {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "more");
    let before = repo.before();
    let result = repo.run("rebase_on_main").await;
    assert!(
        skipped(&result).starts_with("`work` is up to date with `origin/main`"),
        "{result:?}"
    );
    repo.is_as(&before);
}

#[tokio::test]
async fn a_branch_without_commits_is_left_alone() {
    let repo = Repo::new();
    repo.elsewhere("main", "c.txt", "c\n");
    let before = repo.before();
    assert_eq!(
        skipped(&repo.run("rebase_on_main").await),
        "`work` has no commits that `origin/main` does not have"
    );
    repo.is_as(&before);
}

#[tokio::test]
async fn a_conflict_is_undone_and_the_agent_gets_instructions() {
    let repo = in_conflict();
    let before = repo.before();
    let result = repo.run("rebase_on_main").await;
    let (message, remediation) = failure(&result);
    assert!(
        message.starts_with("`work` conflicts with `origin/main` in `a.txt`; the branch is at "),
        "{message}"
    );
    expect![[r#"
        creel could not rebase the branch `work` onto `origin/main`. These files have conflicts:
        - `a.txt`
        creel aborted the rebase, and the branch is as you left it. Rebase it yourself, in this folder:
        1. Get the newest state: `git fetch origin main`.
        2. Begin: `git rebase origin/main`.
        3. For each file with conflicts: open it, keep what both sides meant, remove the conflict markers, then `git add -- FILE`.
        4. Continue: `GIT_EDITOR=true git rebase --continue`. Repeat from step 3 until git says that the rebase is done.
        5. Build and test, and commit what this needs.
        6. See with `git status` that no rebase is in progress and that nothing is uncommitted.
        Do not push, do not merge, do not drop commits, and do not use `git rebase --skip`. If you cannot resolve it, leave with `git rebase --abort` and say why."#]]
    .assert_eq(remediation.expect("a prompt"));
    repo.is_as(&before);
    repo.is_clean();
}

#[tokio::test]
async fn the_instructions_to_the_agent_complete_the_rebase() {
    let repo = in_conflict();
    failure(&repo.run("rebase_on_main").await);
    repo.git(&["fetch", "--quiet", "origin", "main"]);
    assert!(!repo.try_git(&repo.work, &["rebase", "origin/main"]).0);
    std::fs::write(repo.work.join("a.txt"), "both\n").expect("a file");
    repo.git(&["add", "--", "a.txt"]);
    repo.git(&["-c", "core.editor=true", "rebase", "--continue"]);
    let before = repo.before();
    skipped(&repo.run("rebase_on_main").await);
    repo.is_as(&before);
}

#[tokio::test]
async fn hostile_names_are_data() {
    let repo = Repo::new();
    let branch = "$(touch${IFS}pwned)';touch\"pwned\"&\u{1f41f}";
    repo.git(&["switch", "--quiet", "-c", branch]);
    let file = "-rf `x`\n\u{1b}[2J.txt";
    repo.commit(file, "mine\n", "-m --amend");
    repo.elsewhere("main", file, "theirs\n");
    let before = repo.before();
    let result = repo.run("rebase_on_main").await;
    let (message, remediation) = failure(&result);
    let remediation = remediation.expect("a prompt");
    assert!(
        remediation.contains("\n- `-rf 'x'\\n\\u{1b}[2J.txt`\n"),
        "{remediation}"
    );
    assert!(!message.contains('\u{1b}') && !remediation.contains('\u{1b}'));
    assert!(!repo.work.join("pwned").exists());
    repo.is_as(&before);
}

#[tokio::test]
async fn uncommitted_changes_are_never_rebased() {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "more");
    repo.elsewhere("main", "c.txt", "c\n");
    std::fs::write(repo.work.join("a.txt"), "half done\n").expect("a file");
    let before = repo.before();
    let result = repo.run("rebase_on_main").await;
    let (message, remediation) = failure(&result);
    assert_eq!(
        message,
        "1 file has uncommitted changes (`a.txt`), so it is not rebased: commit or stash them"
    );
    assert!(
        remediation.is_some_and(
            |prompt| prompt.contains("- `a.txt`\n") && prompt.contains("git stash push")
        )
    );
    assert_eq!(
        std::fs::read_to_string(repo.work.join("a.txt")).expect("the file"),
        "half done\n"
    );
    repo.is_as(&before);
}

#[tokio::test]
async fn a_rebase_or_merge_of_the_user_is_not_touched() {
    for begun in [["rebase", "origin/main"], ["merge", "origin/main"]] {
        let repo = in_conflict();
        repo.git(&["fetch", "--quiet", "origin"]);
        assert!(!repo.try_git(&repo.work, &begun).0, "a conflict");
        let status = repo.git(&["status"]);
        for hook in ["rebase_on_main", "create_pr", "merge_pr"] {
            let result = repo.run(hook).await;
            let (message, remediation) = failure(&result);
            assert!(
                message.contains("is in progress in") && message.contains("creel did not start it"),
                "{message}"
            );
            assert_eq!(remediation, None, "it is a person's affair");
        }
        assert_eq!(repo.git(&["status"]), status);
    }
}

#[tokio::test]
async fn the_base_branch_itself_is_refused() {
    let repo = Repo::new();
    repo.git(&["switch", "--quiet", "main"]);
    repo.commit("b.txt", "b\n", "on main");
    repo.elsewhere("main", "c.txt", "c\n");
    let before = repo.before();
    for hook in ["rebase_on_main", "create_pr", "merge_pr"] {
        let result = repo.run(hook).await;
        let (message, remediation) = failure(&result);
        assert!(
            message.contains("create a branch for it with `git switch -c creel/s`"),
            "{message}"
        );
        assert!(remediation.is_some_and(|prompt| prompt.contains("git switch -c creel/s")));
    }
    repo.is_as(&before);
}

#[tokio::test]
async fn a_detached_head_is_refused() {
    let repo = Repo::new();
    repo.git(&["switch", "--quiet", "--detach"]);
    let result = repo.run("rebase_on_main").await;
    assert!(failure(&result).0.contains("git switch -c NAME"));
}

#[tokio::test]
async fn without_a_remote_the_local_base_branch_counts() {
    let repo = Repo::without_remote();
    repo.commit("b.txt", "b\n", "more");
    repo.git(&["switch", "--quiet", "main"]);
    let newest = repo.commit("c.txt", "c\n", "on main");
    repo.git(&["switch", "--quiet", "work"]);
    let before = repo.before();
    success(&repo.run("rebase_on_main").await);
    assert_eq!(repo.git(&["rev-parse", "HEAD~1"]), newest);
    repo.lost_nothing_since(&before);
}

#[tokio::test]
async fn a_remote_that_is_gone_changes_nothing() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "more");
    std::fs::remove_dir_all(repo.remote()).expect("gone");
    let before = repo.before();
    for hook in ["rebase_on_main", "create_pr"] {
        let result = repo.run(hook).await;
        let (message, remediation) = failure(&result);
        assert!(
            message.starts_with("creel could not fetch `main` from `origin`"),
            "{message}"
        );
        assert_eq!(remediation, None);
    }
    repo.is_as(&before);
}

#[tokio::test]
async fn a_refusal_by_a_hook_of_the_repository_is_respected() {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "more");
    repo.elsewhere("main", "c.txt", "c\n");
    hook_of(
        &repo.work.join(".git"),
        "pre-rebase",
        "#!/bin/sh\necho not on fridays >&2\nexit 1\n",
    );
    let before = repo.before();
    let result = repo.run("rebase_on_main").await;
    assert!(failure(&result).0.contains("not on fridays"), "{result:?}");
    repo.is_as(&before);
}

#[tokio::test]
async fn the_base_branch_is_configured_or_found() {
    let with_base = |base: &str| SubmissionFacts {
        base_branch: Some(base.into()),
        ..SubmissionFacts::default()
    };
    let repo = Repo::new();
    repo.git(&["push", "--quiet", "origin", "main:refs/heads/develop"]);
    repo.commit("b.txt", "b\n", "more");
    let newest = repo.elsewhere("develop", "d.txt", "d\n");
    let missing = repo.run_with("rebase_on_main", with_base("release")).await;
    assert!(
        failure(&missing)
            .0
            .starts_with("`origin` has no branch `release`"),
        "{missing:?}"
    );
    for wrong in ["--upload-pack=touch pwned", "a..b"] {
        let result = repo.run_with("rebase_on_main", with_base(wrong)).await;
        assert!(
            failure(&result)
                .0
                .contains("which is not a valid branch name"),
            "{result:?}"
        );
    }
    success(
        &repo
            .run_with("rebase_on_main", with_base("origin/develop"))
            .await,
    );
    assert_eq!(repo.git(&["rev-parse", "HEAD~1"]), newest);
    repo.git_in(
        &repo.remote(),
        &["symbolic-ref", "HEAD", "refs/heads/develop"],
    );
    let found = repo.run("rebase_on_main").await;
    assert!(
        skipped(&found).contains("up to date with `origin/develop`"),
        "{found:?}"
    );
}

#[tokio::test]
async fn the_remote_determines_the_base_branch_whatever_was_known_locally() {
    for base in ["develop", "trunk"] {
        let repo = Repo::new();
        repo.git(&["remote", "set-head", "origin", "main"]);
        repo.git(&[
            "push",
            "--quiet",
            "origin",
            &format!("main:refs/heads/{base}"),
        ]);
        repo.git_in(
            &repo.remote(),
            &["symbolic-ref", "HEAD", &format!("refs/heads/{base}")],
        );
        repo.commit("b.txt", "b\n", "more");
        let newest = repo.elsewhere(base, "d.txt", "d\n");
        success(&repo.run("rebase_on_main").await);
        assert_eq!(repo.git(&["rev-parse", "HEAD~1"]), newest);
    }
}

#[tokio::test]
async fn without_an_answer_from_the_remote_the_locally_known_base_branch_counts() {
    // A remote whose HEAD names a branch that does not exist.
    let silent = |base: &str| {
        let repo = Repo::new();
        repo.git_in(
            &repo.remote(),
            &["symbolic-ref", "HEAD", "refs/heads/nowhere"],
        );
        repo.git(&[
            "push",
            "--quiet",
            "origin",
            &format!("main:refs/heads/{base}"),
        ]);
        repo.git(&["fetch", "--quiet", "origin"]);
        repo.commit("b.txt", "b\n", "more");
        repo
    };
    let repo = silent("develop");
    repo.git(&["remote", "set-head", "origin", "develop"]);
    let found = repo.run("rebase_on_main").await;
    assert!(
        skipped(&found).contains("up to date with `origin/develop`"),
        "{found:?}"
    );
    let chosen = "`origin` does not report a default branch, so the base branch is `develop`: `origin` reported it before";
    assert!(found.stdout.contains(chosen), "{found:?}");

    let repo = silent("trunk");
    repo.git(&["push", "--quiet", "origin", ":main"]);
    repo.git(&["branch", "--quiet", "-D", "main"]);
    let found = repo.run("rebase_on_main").await;
    assert!(
        skipped(&found).contains("up to date with `origin/trunk`"),
        "{found:?}"
    );
    assert!(
        found
            .stdout
            .contains("so the base branch is `trunk`: it is the first of `main`, `master` and `trunk` that exists"),
        "{found:?}"
    );
}

#[tokio::test]
async fn the_remote_is_not_asked_about_a_configured_base_branch() {
    let repo = Repo::new();
    repo.git_in(
        &repo.remote(),
        &["symbolic-ref", "HEAD", "refs/heads/nowhere"],
    );
    let with_base = SubmissionFacts {
        base_branch: Some("main".into()),
        ..SubmissionFacts::default()
    };
    let found = repo.run_with("rebase_on_main", with_base).await;
    assert!(!found.stdout.contains("does not report"), "{found:?}");
}

#[tokio::test]
async fn a_folder_without_git_is_reported() {
    let repo = Repo::new();
    std::fs::remove_dir_all(repo.work.join(".git")).expect("gone");
    let result = repo.run("rebase_on_main").await;
    assert!(
        outcome(&result)
            .message
            .contains("is not usable as a git repository"),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_missing_remote_is_reported() {
    let repo = Repo::new();
    let submission = SubmissionFacts {
        remote: Some("--upload-pack=touch".into()),
        ..SubmissionFacts::default()
    };
    let result = repo.run_with("rebase_on_main", submission).await;
    assert_eq!(
        failure(&result).0,
        "the remote `--upload-pack=touch` does not exist; use one of: `origin`"
    );
}

#[tokio::test]
async fn of_several_remotes_the_branchs_upstream_is_used() {
    let repo = Repo::new();
    repo.commit("b.txt", "b\n", "add b");
    // The work goes to `upstream`; `origin` is an empty repository.
    let empty = repo.at("empty");
    std::fs::create_dir(&empty).expect("a folder");
    repo.git_in(&empty, &["init", "--bare", "-q"]);
    repo.git(&["remote", "rename", "origin", "upstream"]);
    repo.git(&["remote", "add", "origin", &empty.display().to_string()]);
    repo.git(&["config", "branch.work.remote", "upstream"]);
    let theirs = repo.elsewhere("main", "c.txt", "c\n");
    let result = repo.run("rebase_on_main").await;
    assert!(
        outcome(&result).message.contains("upstream/main"),
        "{result:?}"
    );
    assert!(
        repo.try_git(
            &repo.work,
            &["merge-base", "--is-ancestor", &theirs, "work"]
        )
        .0,
        "{result:?}"
    );
}
