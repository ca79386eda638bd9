//! A node by what a user types.

use fblayout::graph::Graph;

/// Names told where none fits.
const NEAREST: usize = 5;

/// Nodes told where several fit.
const LISTED: usize = 20;

/// The node of that number (`#12`), name, or part of a name or of an op and a name, if there is one only; names that fit better are
/// preferred to those that fit worse.
///
/// # Errors
/// Several nodes fit equally well, which are listed; or none, with the nearest names.
pub fn node(graph: &Graph, query: &str) -> Result<usize, String> {
    let count = graph.nodes.len();
    if let Some(number) = query.strip_prefix('#') {
        return match number.parse::<usize>() {
            Ok(n) if n < count => Ok(n),
            _ => Err(format!("--explain: no node has the number {number:?}; they go from #0 to #{}", count - 1)),
        };
    }
    let label = |n: usize| format!("{} {}", graph.nodes[n].op.row().name, graph.nodes[n].name);
    let name = |n: usize| graph.nodes[n].name.as_str();
    let fits: [&dyn Fn(usize) -> bool; 3] = [
        &|n| name(n) == query || label(n) == query,
        &|n| name(n).starts_with(query) || label(n).starts_with(query),
        &|n| label(n).contains(query),
    ];
    let found = fits.iter().map(|fit| (0..count).filter(|&n| fit(n)).collect::<Vec<_>>()).find(|f| !f.is_empty());
    match found.as_deref() {
        Some(&[one]) => Ok(one),
        Some(several) if !query.is_empty() => {
            let mut text = format!("--explain: {} nodes fit {query:?}:", several.len());
            several.iter().take(LISTED).for_each(|&n| text += &format!("\n  #{n} {}", label(n)));
            if several.len() > LISTED {
                text += &format!("\n  and {} more", several.len() - LISTED);
            }
            Err(text)
        }
        _ => {
            let mut names: Vec<&str> = (0..count).map(name).collect();
            names.sort_by_cached_key(|name| (distance(query, name), name.len()));
            names.dedup();
            let nearest = names[..NEAREST.min(names.len())].join(", ");
            Err(format!("--explain: no node fits {query:?}; the nearest are {nearest}"))
        }
    }
}

/// Insertions, deletions and replacements between two texts.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = corner + usize::from(from != to);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fblayout::graph::{DType, Unary};

    fn graph() -> Graph {
        let mut g = Graph::new();
        let x = g.external("x", DType::F32, [8, 1, 1, 1]);
        for name in ["blk.0.gate", "blk.0.gate.rows", "blk.1.gate", "twice", "twice"] {
            g.node(name, fblayout::graph::Op::Unary(Unary::Tanh), vec![g.whole(x)]).unwrap();
        }
        g
    }

    #[test]
    fn the_best_fit_wins_and_ties_are_listed() {
        let g = graph();
        assert_eq!(node(&g, "blk.0.gate"), Ok(0), "a whole name before a prefix");
        assert_eq!(node(&g, "TANH blk.1.gate"), Ok(2));
        assert_eq!(node(&g, "1.gate"), Ok(2));
        assert_eq!(node(&g, "#4"), Ok(4));
        let several = node(&g, "twice").unwrap_err();
        assert!(
            several.contains("2 nodes") && several.contains("#3 TANH twice") && several.contains("#4"),
            "{several}"
        );
        let none = node(&g, "blk.1.gte").unwrap_err();
        assert!(none.contains("the nearest are blk.1.gate, blk.0.gate"), "{none}");
        assert!(node(&g, "#5").unwrap_err().contains("#0 to #4"));
        assert!(node(&g, "").is_err());
    }

    #[test]
    fn distances_are_edits() {
        assert_eq!([distance("", "abc"), distance("abc", "abc"), distance("kitten", "sitting")], [3, 0, 3]);
    }
}
