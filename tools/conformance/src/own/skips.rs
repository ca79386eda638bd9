//! Cases that the device does not run, by pattern, each with the reason. A reason that no case needs any more is an error.

/// Pieces of names in their order, the first of which is their beginning, and why the device need not run such cases.
pub const SKIPS: &[(&[&str], &str)] = &[
    (
        &["CPY f32 ", "into q4_K"],
        "superblocks are encoded by no Vulkan backend of ggml: caches are made of blocks of 32",
    ),
    (&["SET_ROWS q4_K"], "superblocks are encoded by no Vulkan backend of ggml: caches are made of blocks of 32"),
];

/// The reason for which a case may be left out, with its place in the table.
pub fn reason(name: &str) -> Option<(usize, &'static str)> {
    SKIPS.iter().enumerate().find(|(_, (pieces, _))| matches(name, pieces)).map(|(at, &(_, why))| (at, why))
}

fn matches(name: &str, pieces: &[&str]) -> bool {
    let begins = pieces.first().is_some_and(|first| name.starts_with(first));
    let rest = pieces.iter().try_fold(name, |rest, piece| rest.find(piece).map(|at| &rest[at + piece.len()..]));
    begins && rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn pieces_are_found_in_their_order() {
        assert!(matches("CPY f32 heads into q4_K", &["CPY f32 ", "into q4_K"]));
        assert!(!matches("CPY q4_K heads into f32", &["CPY f32 ", "into q4_K"]));
        assert!(!matches("a CPY f32 into q4_K", &["CPY f32 ", "into q4_K"]));
    }
}
