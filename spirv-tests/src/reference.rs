//! The oracle as a device, to test the tests.

use fblayout::graph::{Array, DType, Graph, ValueId, encode};

use crate::{Case, Device, Outcome};

/// Answers with the oracle's result rounded to the output's dtype, after an optional spoiling.
pub struct Reference {
    spoil: fn(&mut Array),
}

impl Reference {
    /// A device without fault.
    pub fn faithful() -> Self {
        Self { spoil: |_| () }
    }

    /// A device whose results all pass through `spoil`.
    pub fn spoiled(spoil: fn(&mut Array)) -> Self {
        Self { spoil }
    }
}

impl Device for Reference {
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String> {
        let case = Case { name: String::new(), graph: graph.clone(), data: data.to_vec() };
        let mut results = case.expected(&case.inputs());
        results.iter_mut().for_each(self.spoil);
        let bytes = |(result, id): (Array, &ValueId)| {
            let dtype: DType = case.desc(*id).dtype;
            let numbers: Vec<f32> = result.data.iter().map(|&x| x as f32).collect();
            encode(dtype, &numbers).map_err(|e| e.to_string())
        };
        Ok(Outcome { bytes: results.into_iter().zip(read).map(bytes).collect::<Result<_, _>>()? })
    }
}
