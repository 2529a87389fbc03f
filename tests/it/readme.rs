//! The first commands of README.md work as they are printed, with this creel in place of the
//! installed one.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    book::{blocks, words},
    notifications::{install, install_creel},
    support::project::{Project, Ran},
};

const README: &str = include_str!("../../README.md");

/// The commands of the first block below a heading.
fn commands(heading: &str) -> Vec<Vec<String>> {
    let section = README
        .split(&format!("\n## {heading}\n"))
        .nth(1)
        .expect("the section");
    let block = blocks(section.split("\n## ").next().expect("a section"))
        .into_iter()
        .next()
        .expect("a block");
    assert_eq!(block.language, "sh");
    block
        .text
        .lines()
        .map(words)
        .filter(|words| !words.is_empty())
        .collect()
}

#[test]
fn the_install_command_is_valid() {
    let commands = commands("Install");
    assert_eq!(commands, [["cargo", "install", "--path", ".", "--locked"]]);
    // cargo checks the command line and the package before it builds anything.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "install",
            "--path",
            ".",
            "--locked",
            "--offline",
            "--bin",
            "no-such-program",
        ])
        .current_dir(root);
    let folder = tempfile::tempdir().expect("a folder");
    let ran = Ran::of(
        &cargo
            .arg("--root")
            .arg(folder.path())
            .output()
            .expect("cargo starts"),
    );
    assert!(
        ran.err.contains("no bin target named `no-such-program`"),
        "{}",
        ran.err
    );
    assert!(README.contains("`cargo install creel --locked`"));
}

/// A folder with this creel and an agent that claude users have, whose turns a script plays.
fn tools(project: &Project) -> PathBuf {
    install_creel(project);
    let agent = "#!/bin/sh\ncase \"$*\" in *--version*) echo 1.0; exit;; esac\ncat > /dev/null\n\
                 touch fixed\necho '{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"Fixed. <promise>COMPLETE</promise>\"}'\n";
    install(project, "claude", agent);
    install(project, "cargo", "#!/bin/sh\ntest -e fixed\n");
    project.temp_dir().join("bin")
}

#[test]
fn every_command_of_the_first_session_works_as_printed() {
    let project = Project::new().file("Cargo.toml", "");
    let bin = tools(&project);
    let commands = commands("Your first session");
    let names: Vec<&str> = commands.iter().map(|words| words[1].as_str()).collect();
    assert_eq!(names, ["demo", "init", "check", "run"]);
    for words in &commands {
        assert_eq!(words[0], "creel");
        let mut args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        // Without a terminal, the user has no other way to agree.
        if words[1] == "run" {
            args.push("--trust");
        }
        let path = std::env::join_paths([bin.as_path(), Path::new("/usr/bin"), Path::new("/bin")])
            .expect("a path");
        let ran = Ran::of(
            &project
                .command(&args)
                .env("PATH", path)
                .output()
                .expect("creel starts"),
        );
        assert_eq!(
            ran.code,
            0,
            "creel {}\n{}{}",
            args.join(" "),
            ran.out,
            ran.err
        );
        if words[1] == "check" {
            assert!(
                ran.out.contains("is valid\n"),
                "nothing is missing\n{}",
                ran.out
            );
        }
    }
    assert!(project.root().join("fixed").exists());
}
