//! Layers that are alike, drawn once.

/// Consecutive nodes of one layer, or of none.
#[derive(Clone, Debug, PartialEq)]
pub struct Run<T> {
    /// The layer.
    pub layer: Option<u32>,
    /// What belongs to it, in order.
    pub items: Vec<T>,
}

/// Runs that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Numbers of the runs, the first of which stands for all.
    pub runs: Vec<usize>,
}

/// The layer that a name speaks of: `.. blk.12.rest` is of layer 12.
pub fn layer(name: &str) -> Option<u32> {
    let (_, rest) = name.split_once("blk.")?;
    let (number, _) = rest.split_once('.')?;
    number.parse().ok()
}

/// A name without the number of its layer.
pub fn short(name: &str) -> String {
    match (layer(name), name.split_once("blk.")) {
        (Some(_), Some((before, rest))) => {
            let (_, after) = rest.split_once('.').unwrap_or(("", rest));
            format!("{before}{}", short(after))
        }
        _ => name.to_owned(),
    }
}

/// Cuts items into runs of one layer.
pub fn runs<T>(items: impl IntoIterator<Item = (Option<u32>, T)>) -> Vec<Run<T>> {
    let mut runs: Vec<Run<T>> = Vec::new();
    for (layer, item) in items {
        match runs.last_mut() {
            Some(run) if run.layer == layer => run.items.push(item),
            _ => runs.push(Run { layer, items: vec![item] }),
        }
    }
    runs
}

/// Joins runs whose items are alike, in the order in which they appear first.
pub fn groups<T>(runs: &[Run<T>], alike: impl Fn(&T, &T) -> bool) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let same = |group: &&mut Group| {
            let first = &runs[group.runs[0]];
            first.layer.is_some() == run.layer.is_some()
                && first.items.len() == run.items.len()
                && first.items.iter().zip(&run.items).all(|(a, b)| alike(a, b))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.runs.push(i),
            None => groups.push(Group { runs: vec![i] }),
        }
    }
    groups
}

/// Numbers in any order as a list of ranges: `0, 3-5, 7-13 (every 2nd)`.
pub fn list(numbers: &[u32]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let mut parts = Vec::new();
    let mut rest = numbers.as_slice();
    while let [first, tail @ ..] = rest {
        let step = tail.first().map_or(1, |next| next - first);
        let length = 1 + tail.iter().zip(1..).take_while(|&(&n, i)| n == first + i * step).count();
        let last = rest[length - 1];
        let taken = match (length, step) {
            (1, _) => 1,
            (_, 1) => length,
            (2, _) => 1,
            _ => length,
        };
        parts.push(match (taken, step) {
            (1, _) => first.to_string(),
            (_, 1) => format!("{first}\u{2013}{last}"),
            (_, step) => format!("{first}\u{2013}{last} (every {step}th)").replace("2th", "2nd").replace("3th", "3rd"),
        });
        rest = &rest[taken..];
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_speak_of_layers() {
        assert_eq!([layer("blk.12.ffn"), layer("gradient of blk.3.x"), layer("loss")], [Some(12), Some(3), None]);
        assert_eq!(short("gradient of blk.3.x"), "gradient of x");
        assert_eq!(short("embedding"), "embedding");
    }

    #[test]
    fn like_layers_are_joined_where_they_first_appear() {
        let items =
            [(None, 'e'), (Some(0), 'a'), (Some(1), 'b'), (Some(2), 'a'), (Some(3), 'b'), (None, 'h'), (Some(3), 'c')];
        let runs = runs(items);
        assert_eq!(runs.len(), 7);
        let joined: Vec<Vec<usize>> = groups(&runs, |a, b| a == b).into_iter().map(|g| g.runs).collect();
        assert_eq!(joined, [vec![0], vec![1, 3], vec![2, 4], vec![5], vec![6]]);
    }

    #[test]
    fn lists_are_short() {
        assert_eq!(list(&[3, 2, 1, 0]), "0\u{2013}3");
        assert_eq!(list(&[0, 2, 4, 6]), "0\u{2013}6 (every 2nd)");
        assert_eq!(list(&[0, 1, 2, 3, 4, 6, 7, 8]), "0\u{2013}4, 6\u{2013}8");
        assert_eq!(list(&[5]), "5");
        assert_eq!(list(&[5, 11]), "5, 11");
        assert_eq!(list(&[5, 11, 17]), "5\u{2013}17 (every 6th)");
    }
}
