//! Finds the known name that the user probably meant by an unknown one.

/// The nearest known name, if the difference is small enough for a typing mistake.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wrong = wrong.to_lowercase().replace('-', "_");
    let length = wrong.chars().count();
    let tolerated = |name: &str| name.chars().count().max(3) / 3;
    known
        .into_iter()
        // Comparing lengths first is cheap and excludes most names.
        .filter(|name| name.chars().count().abs_diff(length) <= tolerated(name))
        .map(|name| {
            (
                strsim::osa_distance(&wrong, &name.to_lowercase().replace('-', "_")),
                name,
            )
        })
        // If every letter differs, the user did not mean this name.
        .filter(|(distance, name)| *distance <= tolerated(name) && *distance < name.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
