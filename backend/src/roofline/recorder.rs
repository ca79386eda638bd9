//! Sums what programs tell, and keeps it in a file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::device::Profile;

use super::{Kind, Measured, Phase, Sum, Times};

/// The file is at most this old where graphs keep coming.
const AGE: Duration = Duration::from_secs(1);

/// Sums of one device. The file is written after graphs 1, 2, 4, 8 and so on, after any that finds it a second old, and when the recorder
/// goes: processes that never free what they opened leave one, too.
pub struct Recorder {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    measured: Measured,
    /// Where the sum of a kind is.
    known: HashMap<Kind, usize>,
    /// What the CPU did for the graph that runs next.
    pending: Vec<(Phase, u64)>,
    /// When that began: with the first work for the first graph, and at the end of the run before for all others.
    began: Option<Instant>,
    written: Instant,
}

impl Recorder {
    /// Sums of nothing yet, for a file that need not exist.
    pub fn new(path: &Path, device: String, machine: Option<Profile>) -> Self {
        // Wherever the process goes, its file is where it was asked for.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let measured = Measured { device, machine, ..Measured::default() };
        let state =
            State { measured, known: HashMap::new(), pending: Vec::new(), began: None, written: Instant::now() };
        Self { path, state: Mutex::new(state) }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.path
    }

    /// Does some work of the CPU and counts its time.
    pub fn timed<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let took = nanoseconds(began.elapsed());
        let mut state = self.state();
        state.began.get_or_insert(began);
        state.pending.push((phase, took));
        result
    }

    /// The numbers of a program's steps, in their order.
    pub fn number(&self, steps: Vec<Kind>) -> Vec<usize> {
        let State { measured, known, .. } = &mut *self.state();
        let mut number = |kind: Kind| {
            *known.entry(kind).or_insert_with_key(|kind| {
                measured.steps.push(Sum { kind: kind.clone(), first: Times::default(), again: Times::default() });
                measured.steps.len() - 1
            })
        };
        steps.into_iter().map(&mut number).collect()
    }

    /// Adds a run of a program, its first or another: the nanoseconds of its steps, by their numbers.
    pub fn ran(&self, first: bool, steps: &[usize], nanoseconds_of: &[f64]) {
        let State { measured, pending, began, written, .. } = &mut *self.state();
        let Measured { first: firsts, again, steps: sums, .. } = measured;
        let mut total = 0;
        for (&step, &ns) in steps.iter().zip(nanoseconds_of) {
            let (ns, sum) = (ns.round() as u64, &mut sums[step]);
            total += ns;
            if first { &mut sum.first } else { &mut sum.again }.add(ns);
        }
        let runs = if first { firsts } else { again };
        runs.device.add(total);
        pending.drain(..).for_each(|(phase, ns)| runs.cpu.entry(phase).or_default().add(ns));
        runs.wall.add(began.map_or(0, |began| nanoseconds(began.elapsed())));
        *began = Some(Instant::now());
        let count = measured.first.device.count + measured.again.device.count;
        if count.is_power_of_two() || written.elapsed() >= AGE {
            self.write(measured, written);
        }
    }

    /// Writes the file.
    pub fn keep(&self) {
        let State { measured, written, .. } = &mut *self.state();
        self.write(measured, written);
    }

    fn write(&self, measured: &Measured, written: &mut Instant) {
        if let Err(error) = measured.write(&self.path) {
            log::warn!("what steps took is not kept in '{}': {error}", self.path.display());
        }
        *written = Instant::now();
    }

    /// Sums are right even where a thread broke off between them.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.keep();
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
