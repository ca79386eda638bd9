//! What the user sees while training runs: a bar on a terminal, a line a step elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::metrics::Metrics;

/// Progress of a training run, on stderr.
pub struct Progress {
    bar: Option<ProgressBar>,
    steps: usize,
}

impl Progress {
    /// Starts at step 0.
    pub fn new(steps: usize) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("step {pos}/{len} {bar:30} {msg}  ETA {eta}");
            ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Progress { bar, steps }
    }

    /// Shows a finished step.
    pub fn show(&self, m: &Metrics) {
        let text = format!("loss {:.4}  accuracy {:.2}  {:.1} tokens/s", m.loss, m.accuracy, m.tokens_per_s);
        match &self.bar {
            Some(bar) => {
                bar.set_message(text);
                bar.set_position(m.step as u64);
            }
            None => eprintln!("step {}/{}  {text}", m.step, self.steps),
        }
    }

    /// Leaves the bar as it is and moves on.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.abandon();
        }
    }
}
