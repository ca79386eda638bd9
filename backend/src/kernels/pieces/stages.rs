//! Dispatches of pieces put together.

use super::super::{Arg, Dispatch, Lowered, Scratch};

/// Dispatches of pieces: those of a stage wait for the stage before, and not for each other.
#[derive(Default)]
pub(super) struct Stages {
    stages: Vec<Vec<Dispatch>>,
    scratch: Vec<Scratch>,
}

impl Stages {
    /// None yet, over temporaries of their own.
    pub(super) fn over(scratch: Vec<Scratch>) -> Self {
        Self { stages: Vec::new(), scratch }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.stages.len()
    }

    /// Adds a piece, whose operands have these names in the whole.
    pub(super) fn add(&mut self, piece: Lowered, name: impl Fn(Arg) -> Arg) {
        self.add_from(0, piece, name);
    }

    /// The same, from this stage on.
    pub(super) fn add_from(&mut self, first: usize, piece: Lowered, name: impl Fn(Arg) -> Arg) {
        let before = self.scratch.len();
        let named = |arg| match arg {
            Arg::Scratch(i) => Arg::Scratch(before + i),
            arg => name(arg),
        };
        self.scratch.extend(piece.scratch);
        let mut stage = first;
        for (i, mut dispatch) in piece.dispatches.into_iter().enumerate() {
            stage += usize::from(i > 0 && !dispatch.beside);
            dispatch.args.iter_mut().for_each(|(arg, _)| *arg = named(*arg));
            self.stages.resize_with(self.stages.len().max(stage + 1), Vec::new);
            dispatch.beside = !self.stages[stage].is_empty();
            self.stages[stage].push(dispatch);
        }
    }

    pub(super) fn finish(self) -> Lowered {
        Lowered { dispatches: self.stages.into_iter().flatten().collect(), scratch: self.scratch }
    }
}
