//! Ratios of what plans cost, as the article reports them.

use fblayout::plan::Policy;

use crate::numbers::{Spread, or_dash};
use crate::reference;
use crate::table::Table;

use super::cell::{Cell, Way};

/// The policy that the article's global selection is added to.
pub const SELECTED_BY_ARTICLE: Policy = Policy::RTileMaps;

/// The article's ablation: what is compared with what, the speed-up, and the quotient of global accesses.
const ABLATION: [(&str, Way, Way, f64, f64); 4] = {
    const fn rule(policy: Policy) -> Way {
        Way { policy, selector: fblayout::plan::Selector::Rule }
    }
    const SELECTED: Way = Way { policy: SELECTED_BY_ARTICLE, selector: fblayout::plan::Selector::ChainDp };
    [
        ("B1 R-Tiles", rule(Policy::HonestRowmajor), rule(Policy::RTile), 1.88, 2.50),
        ("B2 copies become coordinates", rule(Policy::RTile), rule(Policy::RTileMaps), 1.45, 1.86),
        ("B3 selection over the graph", rule(Policy::RTileMaps), SELECTED, 1.31, 1.56),
        ("B4 all three", rule(Policy::HonestRowmajor), SELECTED, 3.57, 7.25),
    ]
};

/// What the article measured on phones against whole engines, decoders: least and most.
fn article(policy: Policy) -> Option<&'static str> {
    match policy {
        Policy::LayoutReuse => Some("3.9–4.1 (MNN)"),
        Policy::ConvertAlways => Some("4.3–4.9 (TFLite)"),
        Policy::FusedElementwise => Some("5.4–5.7 (TVM)"),
        Policy::HonestRowmajor | Policy::RTile | Policy::RTileMaps | Policy::Full => None,
    }
}

/// Quotients of a quantity of two ways, one per model, on one preset.
fn quotients(cells: &[Cell], preset: &str, [from, to]: [Way; 2], quantity: impl Fn(&Cell) -> f64) -> Vec<f64> {
    let on = |way: Way| cells.iter().filter(move |c| c.preset == preset && c.way == way);
    on(from)
        .filter_map(|before| {
            let after = on(to).find(|after| after.model == before.model)?;
            Some(quantity(before) / quantity(after))
        })
        .collect()
}

/// The presets of these cells, in order.
fn presets(cells: &[Cell]) -> Vec<&'static str> {
    let mut presets: Vec<&'static str> = cells.iter().map(|c| c.preset).collect();
    presets.dedup();
    let mut seen = Vec::new();
    presets.retain(|p| {
        let new = !seen.contains(p);
        seen.push(*p);
        new
    });
    presets
}

/// E1–E3 and V1: time of every policy over the reference's.
pub fn neighbours(cells: &[Cell]) -> Table {
    let ours = Way::selected(reference::POLICY);
    let others: Vec<Way> = reference::policies().map(Way::rule).collect();
    let head = ["simulated: time over that of".to_owned() + &format!(" {ours}")];
    let mut table = Table::new("neighbours", head.into_iter().chain(others.iter().map(|way| way.to_string())));
    for preset in presets(cells) {
        let spread = |&way: &Way| or_dash(Spread::of(quotients(cells, preset, [way, ours], |c| c.time_ms)));
        table.row([preset.to_owned()].into_iter().chain(others.iter().map(spread)));
    }
    let measured = others.iter().map(|way| or_dash(article(way.policy)));
    table.row(["article, measured on an Adreno 830".to_owned()].into_iter().chain(measured));
    table
}

/// B1–B4: what each idea gains over the one before, mean over models.
pub fn ablation(cells: &[Cell]) -> Table {
    let ours = Way::selected(reference::POLICY);
    let beyond = ("beyond: the reference", Way::selected(SELECTED_BY_ARTICLE), ours);
    let steps = ABLATION.map(|(name, from, to, ..)| (name, from, to)).into_iter().chain([beyond]);
    let presets = presets(cells);
    let head = ["simulated: before / after", "of"].map(str::to_owned);
    let mut table = Table::new(
        "ablation",
        head.into_iter().chain(presets.iter().map(|&p| p.to_owned())).chain(["article, measured".to_owned()]),
    );
    for (name, from, to) in steps {
        let article = ABLATION.iter().find(|row| row.0 == name);
        let (time, accesses) = (article.map(|row| row.3), article.map(|row| row.4));
        for (what, quantity, article) in [
            ("time", (|c| c.time_ms) as fn(&Cell) -> f64, time),
            ("texels asked for", |c| c.whole.requests as f64, accesses),
            ("bytes into L1", |c| c.whole.cache_bytes as f64, accesses),
        ] {
            let mean = |preset: &&str| {
                let spread = Spread::of(quotients(cells, preset, [from, to], quantity));
                or_dash(spread.map(|s| format!("{:.2}", s.mean)))
            };
            let article = or_dash(article.map(|a| format!("{a:.2}")));
            let first = [name.to_owned(), what.to_owned()];
            table.row(first.into_iter().chain(presets.iter().map(mean)).chain([article]));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::cell::{Costs, Memory, Transforms};

    fn cell(model: &'static str, preset: &'static str, way: Way, time_ms: f64) -> Cell {
        Cell {
            model,
            preset,
            way,
            stand: "simulated",
            dispatches: 1,
            time_ms,
            time_ms_range: [time_ms; 2],
            bytes_moved: 1,
            whole: Costs { requests: time_ms as u64, cache_bytes: 3, ..Costs::default() },
            attention: Costs::default(),
            transforms: Transforms::default(),
            memory: Memory { external: 1, computed: 1 },
        }
    }

    fn cells() -> Vec<Cell> {
        let way = Way::rule;
        vec![
            cell("a", "p", way(Policy::LayoutReuse), 6.0),
            cell("a", "p", way(Policy::HonestRowmajor), 8.0),
            cell("a", "p", way(Policy::RTile), 4.0),
            cell("a", "p", Way::selected(reference::POLICY), 2.0),
            cell("b", "p", way(Policy::LayoutReuse), 12.0),
            cell("b", "p", way(Policy::HonestRowmajor), 2.0),
            cell("b", "p", way(Policy::RTile), 4.0),
            cell("b", "p", Way::selected(reference::POLICY), 3.0),
            cell("a", "q", way(Policy::LayoutReuse), 5.0),
            cell("a", "q", Way::selected(reference::POLICY), 5.0),
        ]
    }

    #[test]
    fn models_are_compared_with_themselves() {
        let ways = [Way::rule(Policy::LayoutReuse), Way::selected(reference::POLICY)];
        assert_eq!(quotients(&cells(), "p", ways, |c| c.time_ms), [3.0, 4.0]);
        assert_eq!(presets(&cells()), ["p", "q"]);
        let table = neighbours(&cells()).to_string();
        assert!(table.contains("| p | 3.00–4.00 |") && table.contains("| q | 1.00 |"), "{table}");
        assert!(table.contains("3.9–4.1 (MNN)"), "{table}");
    }

    #[test]
    fn ablations_are_geometric_means() {
        let table = ablation(&cells()).to_string();
        // 8 / 4 and 2 / 4.
        assert!(table.contains("| B1 R-Tiles | time | 1.00 | – | 1.88 |"), "{table}");
        assert!(table.contains("| B2 copies become coordinates | time | – | – | 1.45 |"), "{table}");
    }

    /// The steps follow each other, and the article's products are those of its factors.
    #[test]
    fn ablation_steps_are_a_chain() {
        assert!(ABLATION.windows(2).take(2).all(|w| w[0].2 == w[1].1));
        assert_eq!((ABLATION[0].1, ABLATION[2].2), (ABLATION[3].1, ABLATION[3].2));
        let product = |f: fn(&(&str, Way, Way, f64, f64)) -> f64| ABLATION[..3].iter().map(f).product::<f64>();
        assert!((product(|row| row.3) - ABLATION[3].3).abs() < 0.005);
        assert!((product(|row| row.4) - ABLATION[3].4).abs() < 0.005);
    }
}
