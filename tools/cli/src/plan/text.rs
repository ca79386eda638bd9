//! What is told of a plan, for people.

use fblayout::graph::sum;
use fblayout::plan::Report;

use super::told::{Told, Transforms};

impl Told<'_> {
    /// One line per fact; every figure of a prediction says that it is simulated.
    pub fn text(&self, report: &Report) -> String {
        let Self { model, batch, seq, device, policy, nodes, plan_ms, .. } = self;
        let trained = self.rank.map_or_else(|| "all parameters".to_owned(), |rank| format!("LoRA of rank {rank}"));
        let Transforms { count, bytes, eliminated, ref explicit, .. } = self.transforms;
        let (moved, all) = (mib(sum(explicit.iter().map(|e| e.bytes))), mib(bytes));
        let certainty = if self.peak_is_bound { "at most, from the device's limits" } else { "as the device says" };
        let mut text = format!(
            "{model}: {batch} x {seq} tokens, {trained}, on {device} by {policy}: {nodes} nodes planned in {plan_ms:.0} ms\n\
             {report}\
             transforms: {eliminated} of {count} eliminated; {moved} of {all} moved\n\
             peak: {} ({certainty})",
            mib(self.peak_bytes)
        );
        text += &format!("\n{}", self.transforms.denominators);
        if let Some(replan) = &self.replan {
            text += &format!("\n{replan}");
        }
        if let Some(recompute) = &self.recompute {
            text += &format!("\n{recompute}");
        }
        if let Some(predicted) = &self.predicted {
            text += &format!("\n{}", predicted.to_string().trim_end());
        }
        if let Some(selection) = &self.selection {
            text += &format!("\n{selection}");
        }
        if let Some(candidates) = &self.candidates {
            text += &format!("\n{candidates}");
        }
        if let Some(pruning) = &self.pruning {
            text += &format!("\n{pruning}");
        }
        if let Some(explained) = &self.explained {
            text += &format!("\n{explained}");
        }
        text
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
