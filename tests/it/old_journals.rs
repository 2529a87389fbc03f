//! `creel show` of journals that an earlier creel recorded. `tests/lib/old_journals.rs` has what they mean.

use std::fs;

use expect_test::expect_file;

use crate::support::{
    journals::fixtures,
    project::{Project, Ran},
};

#[test]
fn creel_shows_them() {
    for (name, path) in fixtures() {
        let project = Project::new();
        let folder = project.journal();
        fs::create_dir_all(folder.parent().expect("a folder")).expect("a folder");
        fs::copy(&path, folder).expect("a copy of the journal");
        let mut text = String::new();
        for args in [&["show", "s"][..], &["show", "s", "--prompts"]] {
            // Times of usage limits are shown in the user's time zone.
            let ran = Ran::of(
                &project
                    .command(args)
                    .env("TZ", "UTC")
                    .output()
                    .expect("creel starts"),
            );
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}: {args:?}");
            text += &format!("$ creel {}\n{}\n", args.join(" "), ran.out);
        }
        expect_file![path.with_extension("show.txt")].assert_eq(&text);
    }
}
