//! The oracle as a device, to test the tests.

use fblayout::graph::{Array, Contents, Graph, Kind, ValueId, decode, encode};

use crate::{Device, Outcome};

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

/// What external values hold, given their bytes.
pub fn contents(graph: &Graph, data: &[(ValueId, Vec<u8>)]) -> Contents {
    let array = |(id, bytes): &(ValueId, Vec<u8>)| {
        let value = &graph.values[id.index()];
        debug_assert_eq!(value.kind, Kind::External);
        let data = decode(value.dtype, bytes).expect("cases use whole blocks");
        (*id, Array { shape: value.shape, data })
    };
    data.iter().map(array).collect()
}

impl Device for Reference {
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String> {
        let mut contents = contents(graph, data);
        for node in &graph.nodes {
            node.step(graph, &mut contents);
            for &id in node.written() {
                contents.entry(id).and_modify(self.spoil);
            }
        }
        let bytes = |id: &ValueId| {
            let numbers: Vec<f32> = contents[id].data.iter().map(|&x| x as f32).collect();
            encode(graph.values[id.index()].dtype, &numbers).map_err(|e| e.to_string())
        };
        Ok(Outcome { bytes: read.iter().map(bytes).collect::<Result<_, _>>()?, rounded: None })
    }
}
