//! Tables of single plans: their times, their work, their transforms.

use crate::numbers::{gib, mib, percent, short};
use crate::reference;
use crate::table::Table;

use super::cell::{Cell, Way};

/// The ways of these cells, in the order of their first appearance.
fn ways(cells: &[Cell]) -> Vec<Way> {
    let mut ways = Vec::new();
    for cell in cells {
        if !ways.contains(&cell.way) {
            ways.push(cell.way);
        }
    }
    ways
}

/// Milliseconds of a step, by model, machine and way.
pub fn times(cells: &[Cell]) -> Table {
    let ours = Way::selected(reference::POLICY);
    let range = |alike: &[Cell]| {
        let range = alike.iter().find(|c| c.way == ours).map_or([0.0; 2], |c| c.time_ms_range);
        range.map(short).join("–")
    };
    let mut table = by_machine("times", "simulated ms on", cells, |cell| short(cell.time_ms));
    table.head.push(format!("range of {ours}"));
    table.rows.iter_mut().zip(alike(cells)).for_each(|(row, alike)| row.push(range(alike)));
    table
}

/// GiB from and to memory, by model, machine and way.
pub fn moved(cells: &[Cell]) -> Table {
    by_machine("moved", "simulated GiB from and to memory on", cells, |cell| gib(cell.bytes_moved))
}

/// Cells of one model on one machine are neighbours.
fn alike(cells: &[Cell]) -> impl Iterator<Item = &[Cell]> {
    cells.chunk_by(|a, b| (a.model, a.preset) == (b.model, b.preset))
}

fn by_machine(name: &'static str, what: &str, cells: &[Cell], quantity: impl Fn(&Cell) -> String) -> Table {
    let head = ["model", what].map(str::to_owned).into_iter();
    let mut table = Table::new(name, head.chain(ways(cells).iter().map(Way::to_string)));
    for alike in alike(cells) {
        let first = [alike[0].model, alike[0].preset].map(str::to_owned).into_iter();
        table.row(first.chain(alike.iter().map(&quantity)));
    }
    table
}

/// What the dispatches of a step do on one machine.
pub fn work(cells: &[&Cell]) -> Table {
    let mut table = Table::new(
        "work",
        [
            "model",
            "policy",
            "dispatches",
            "of them conversions",
            "conversions MiB",
            "conversions, simulated % of time",
            "products, simulated % of time",
            "simulated ms",
            "simulated 10⁹ texels asked for",
            "simulated GiB into L1",
            "simulated GiB from and to memory",
        ],
    );
    for cell in cells {
        table.row([
            cell.model.to_owned(),
            cell.way.to_string(),
            cell.dispatches.to_string(),
            cell.whole.conversions.to_string(),
            mib(cell.transforms.explicit_bytes()),
            format!("{:.2}", 100.0 * cell.whole.conversion_share()),
            format!("{:.1}", 100.0 * cell.whole.product_ms / cell.time_ms),
            short(cell.time_ms),
            short(cell.whole.requests as f64 / 1e9),
            short(cell.whole.cache_bytes as f64 / f64::from(1 << 30)),
            gib(cell.bytes_moved),
        ]);
    }
    table
}

/// C1 and C2 of the reference, by model.
pub fn eliminated(cells: &[Cell], first: &str) -> Table {
    let mut table = Table::new(
        "eliminated",
        [
            "model",
            "transforms",
            "C1 by count %",
            "C1 by bytes %",
            "C1 without matrix transposes %",
            "explicit",
            "explicit MiB",
            "C2 worst simulated % of time, any preset",
        ],
    );
    let ours: Vec<&Cell> = cells.iter().filter(|c| c.way == Way::selected(reference::POLICY)).collect();
    for cell in ours.iter().filter(|c| c.preset == first) {
        let shares = ours.iter().filter(|c| c.model == cell.model).map(|c| c.whole.conversion_share());
        let t = cell.transforms;
        table.row([
            cell.model.to_owned(),
            t.count.to_string(),
            format!("{:.1}", percent(t.eliminated, t.count)),
            format!("{:.1}", percent(t.eliminated_bytes, t.bytes)),
            format!("{:.1}", percent(t.untransposed_eliminated, t.untransposed)),
            t.explicit().to_string(),
            mib(t.explicit_bytes()),
            format!("{:.2}", 100.0 * shares.fold(0.0, f64::max)),
        ]);
    }
    table
}

/// T1–T3 by model and way on one machine, in attention as the article has them.
pub fn transforms(cells: &[&Cell]) -> Table {
    let mut table = Table::new(
        "transforms",
        [
            "model",
            "policy",
            "T1 simulated ms of conversions in attention",
            "simulated ms of its other dispatches",
            "T2 explicit transforms in attention",
            "in the whole step",
            "their MiB",
            "T3 simulated GiB into L1 in attention",
            "T3 over the reference's",
        ],
    );
    for cell in cells {
        let ours = cells.iter().find(|c| c.model == cell.model && c.way == Way::selected(reference::POLICY));
        let base = ours.map_or(0, |c| c.attention.cache_bytes);
        table.row([
            cell.model.to_owned(),
            cell.way.to_string(),
            short(cell.attention.conversion_ms),
            short(cell.attention.compute_ms),
            cell.transforms.attention_explicit.to_string(),
            cell.transforms.explicit().to_string(),
            mib(cell.transforms.explicit_bytes()),
            short(cell.attention.cache_bytes as f64 / f64::from(1 << 30)),
            format!("{:.2}", cell.attention.cache_bytes as f64 / base.max(1) as f64),
        ]);
    }
    table
}
