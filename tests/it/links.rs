//! Symbolic links in place of creel's own files: a clone can bring them.

use std::{fs, os::unix::fs::symlink, path::Path};

use crate::support::project::Project;

const CONFIG: &str = "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n";
const SCRIPT: &str = "turns: []\notherwise: { say: '<promise>COMPLETE</promise>' }\n";

fn project() -> Project {
    Project::with(CONFIG).file("scenario.yaml", SCRIPT)
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("it is there").next().is_none()
}

#[test]
fn creel_refuses_a_project_whose_folder_for_sessions_is_a_link() {
    for linked in [".creel", ".creel/sessions"] {
        let project = project();
        let outside = tempfile::tempdir().expect("a folder");
        let link = project.root().join(linked);
        fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
        symlink(outside.path(), &link).expect("a link");
        let why = format!(
            "{} is a symbolic link, and creel does not follow links to its own files",
            link.display()
        );
        for args in [
            &["run", "--headless", "--trust", "-s", "s"][..],
            &["resume", "--headless", "--trust", "s"],
            &["sessions"],
            &["show", "s"],
            &["status", "-s", "s"],
            &["check"],
        ] {
            let ran = project.creel(args);
            assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
            assert!(
                ran.err.contains(&why) && ran.err.contains("Replace it"),
                "{args:?}: {}",
                ran.err
            );
        }
        assert!(
            is_empty(outside.path()),
            "nothing is written behind {linked}"
        );
        fs::remove_file(&link).expect("a link");
        assert_eq!(project.run().code, 0);
    }
}

#[test]
fn creel_reads_no_session_and_no_config_behind_a_link() {
    let (other, project) = (project(), Project::new());
    assert_eq!(other.run().code, 0);
    fs::write(other.root().join(".creel/config.yaml"), CONFIG).expect("a file");
    symlink(other.root().join(".creel"), project.root().join(".creel")).expect("a link");
    for args in [
        &["show", "s"][..],
        &["sessions"],
        &["check"],
        &["resume", "--headless", "--trust", "s"],
    ] {
        let ran = project.creel(args);
        assert!(
            ran.code == 2 && ran.err.contains("is a symbolic link"),
            "{args:?}: {}{}",
            ran.out,
            ran.err
        );
    }
}
