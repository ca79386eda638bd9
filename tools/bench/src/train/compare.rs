//! Runs of several contenders at one job, compared: what is left after rounds, and the ratio.

use serde::Serialize;

use super::told::Told;
use crate::numbers::Quantiles;

/// How many times slower than the fastest of its side a contender may be in the first round to run in the others.
const FAR_BEHIND: f64 = 3.0;

/// Relative difference of losses beyond which two did not do the same work: weights are rounded alike, sums and factors of
/// products are not, and a loss averages over all tokens.
const SAME_LOSS: f64 = 0.01;

/// What took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// Our plugin, the graph as the engine's autodiff leaves it.
    Own,
    /// The peer, the same graph.
    PeerStock,
    /// The peer, the graph rewritten by the host so that gradients are products with transposed copies of the weights.
    PeerRewritten,
}

impl Contender {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Own, Self::PeerStock, Self::PeerRewritten];

    /// The graph that it gets, as the host names it.
    pub fn graph(self) -> &'static str {
        match self {
            Self::Own | Self::PeerStock => "outprod",
            Self::PeerRewritten => "mulmat",
        }
    }

    /// Whether it is the peer's.
    pub fn is_peer(self) -> bool {
        self != Self::Own
    }
}

/// Which of the contenders run in a round, in its order: each has every place once, and those far behind another of their side are
/// left out after the first.
pub fn order(round: usize, runs: &[(Contender, Told)]) -> Vec<Contender> {
    let first = |contender| runs.iter().find(|(of, _)| *of == contender).map(|(_, told)| told.ms_median);
    let fastest_peer =
        Contender::ALL.into_iter().filter(|c| c.is_peer()).filter_map(first).fold(f64::INFINITY, f64::min);
    let behind =
        |contender: Contender| contender.is_peer() && first(contender).is_some_and(|ms| ms > FAR_BEHIND * fastest_peer);
    let n = Contender::ALL.len();
    (0..n).map(|i| Contender::ALL[(i + round) % n]).filter(|&c| round == 0 || !behind(c)).collect()
}

/// What is told of a contender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    pub contender: Contender,
    /// Of the runs' medians.
    pub median_ms: f64,
    /// The fastest step of all.
    pub least_ms: f64,
    pub runs: usize,
    pub cpu_nodes: u32,
    pub loss_first: f64,
    pub loss_last: f64,
}

/// A job's contenders, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    pub sides: Vec<Side>,
    /// The faster of the peer's graphs.
    pub better_peer: Contender,
    /// Its median over ours: above 1, we are faster.
    pub ratio: f64,
    /// Greatest relative difference of its losses to ours.
    pub loss_difference: f64,
}

impl Compared {
    /// The median of every contender, and the better of the peer's over ours.
    ///
    /// # Errors
    /// A side that did not run, or losses so far apart that it was not the same work.
    pub fn of(runs: &[(Contender, Told)]) -> Result<Self, String> {
        let sides: Vec<Side> = Contender::ALL.into_iter().filter_map(|contender| side(contender, runs)).collect();
        let own = sides.iter().find(|side| !side.contender.is_peer()).ok_or("our own did not run")?;
        let peers = sides.iter().filter(|side| side.contender.is_peer());
        let better = peers.min_by(|a, b| a.median_ms.total_cmp(&b.median_ms)).ok_or("no peer ran")?;
        let apart = |own: f64, peer: f64| (own - peer).abs() / peer.abs().max(f64::MIN_POSITIVE);
        let loss_difference = apart(own.loss_first, better.loss_first).max(apart(own.loss_last, better.loss_last));
        if loss_difference > SAME_LOSS {
            return Err(format!(
                "it was not the same work: losses {} to {}, the peer's {} to {}",
                own.loss_first, own.loss_last, better.loss_first, better.loss_last
            ));
        }
        let (better_peer, ratio) = (better.contender, better.median_ms / own.median_ms);
        Ok(Self { better_peer, ratio, loss_difference, sides })
    }

    /// What is told of a contender, if it ran.
    pub fn side(&self, contender: Contender) -> Option<&Side> {
        self.sides.iter().find(|side| side.contender == contender)
    }
}

fn side(contender: Contender, runs: &[(Contender, Told)]) -> Option<Side> {
    let own: Vec<&Told> = runs.iter().filter(|(of, _)| *of == contender).map(|(_, told)| told).collect();
    let medians: Vec<f64> = own.iter().map(|told| told.ms_median).collect();
    let Told { cpu_nodes, loss_first, loss_last, .. } = **own.last()?;
    Some(Side {
        contender,
        median_ms: Quantiles::of(&medians)?.median,
        least_ms: own.iter().map(|told| told.ms_min).fold(f64::INFINITY, f64::min),
        runs: own.len(),
        cpu_nodes,
        loss_first,
        loss_last,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ms: f64, loss: f64) -> Told {
        Told {
            dev: String::new(),
            model: "tiny".into(),
            layers: 1,
            seq: 128,
            wtype: "f16".into(),
            rank: 8,
            grad: String::new(),
            ms_median: ms,
            ms_min: ms / 2.0,
            gflop: 1.0,
            ops: 10,
            cpu_nodes: 0,
            splits: 1,
            loss_first: loss,
            loss_last: loss,
            frozen_mib: 1.0,
            compute_mib: 1.0,
        }
    }

    use Contender::{Own, PeerRewritten, PeerStock};

    #[test]
    fn the_better_peer_counts_and_medians_are_of_runs() {
        let times = [(Own, 2.0), (Own, 4.0), (Own, 3.0), (PeerStock, 90.0), (PeerRewritten, 9.0), (PeerRewritten, 6.0)];
        let runs: Vec<_> = times.map(|(contender, ms)| (contender, told(ms, 8.0))).to_vec();
        let compared = Compared::of(&runs).unwrap();
        assert_eq!((compared.better_peer, compared.ratio, compared.loss_difference), (PeerRewritten, 2.0, 0.0));
        let own = compared.side(Own).unwrap();
        assert_eq!((own.median_ms, own.least_ms, own.runs), (3.0, 1.0, 3));
    }

    #[test]
    fn other_work_is_not_compared() {
        let runs = [(Own, told(1.0, 8.0)), (PeerStock, told(2.0, 8.2))];
        assert!(Compared::of(&runs).unwrap_err().contains("not the same work"));
        assert!(Compared::of(&runs[..1]).unwrap_err().contains("no peer"));
        assert!(Compared::of(&runs[1..]).unwrap_err().contains("our own"));
    }

    #[test]
    fn rounds_turn_and_leave_out_who_is_far_behind() {
        assert_eq!(order(0, &[]), [Own, PeerStock, PeerRewritten]);
        let runs = [(Own, told(1.0, 8.0)), (PeerStock, told(90.0, 8.0)), (PeerRewritten, told(9.0, 8.0))];
        assert_eq!(order(1, &runs), [PeerRewritten, Own]);
        assert_eq!(order(2, &runs), [PeerRewritten, Own]);
        let near = [(PeerStock, told(10.0, 8.0)), (PeerRewritten, told(9.0, 8.0))];
        assert_eq!(order(1, &near), [PeerStock, PeerRewritten, Own]);
    }
}
