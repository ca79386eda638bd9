//! Graphs of any ops over any windows: built, differentiated, classed and planned for a machine, or refused; never a panic.
#![no_main]

mod numbers;
mod ops;

use arbitrary::{Result, Unstructured};
use fblayout::device::{Limits, PRESETS};
use fblayout::graph::{Class, DType, Desc, Graph, Operand, ValueId, flops};
use fblayout::plan::{
    AttentionScope, HeadChoice, Plan, PlanOptions, Planner, Policy, Selector, StorageChoice, UpperBound, chunk_head,
    predict, replace_attention,
};
use libfuzzer_sys::fuzz_target;
use numbers::{number, numbers, wide};

const MOST_VALUES: usize = 24;
const MOST_VIEWS: usize = 4;

fuzz_target!(|data: &[u8]| {
    // Input that ends early is no finding.
    let _ = run(&mut Unstructured::new(data));
});

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let mut graph = Graph::new();
    for _ in 0..u.int_in_range(1..=6)? {
        external(&mut graph, u)?;
    }
    while !u.is_empty() && graph.values.len() < MOST_VALUES && u.ratio(15, 16)? {
        node(&mut graph, u)?;
    }
    if u.arbitrary()? {
        let (loss, wanted) = (value(&graph, u)?, value(&graph, u)?);
        let _ = graph.backward(loss, &[wanted]);
    }
    if let Some(last) = graph.nodes.last().map(|node| node.output) {
        graph.keep(last);
    }
    if graph.verify().is_err() {
        return Ok(());
    }
    for node in &graph.nodes {
        let desc = |id: ValueId| graph.values[id.index()].desc();
        let inputs: Vec<Desc> =
            node.inputs.iter().map(|i| Desc { dtype: desc(i.value).dtype, shape: i.shape }).collect();
        flops(&node.op, &inputs, desc(node.output));
        let operands: Vec<ValueId> = node.inputs.iter().map(|i| i.value).collect();
        let _ = Class::of(&graph, node.output, &operands);
    }
    plan(&graph, u)
}

fn plan(graph: &Graph, u: &mut Unstructured<'_>) -> Result<()> {
    let preset = u.choose(&PRESETS)?;
    let limits = preset.limits.complete(&Limits::USUAL);
    let (_, policy) = *u.choose(&Policy::ALL)?;
    let storage = *u.choose(&[StorageChoice::Auto, StorageChoice::Buffer, StorageChoice::Image])?;
    let options = PlanOptions { storage, policy, ..PlanOptions::default() };
    let (_, selector) = *u.choose(&Selector::ALL)?;
    let selection = preset.profile.as_ref().map(|profile| (selector, profile));
    let (graph, _) = replace_attention(graph, &limits, AttentionScope::All);
    let (graph, _) = chunk_head(&graph, &limits, HeadChoice::Tokens(3));
    let mut planner = Planner::new(&limits, options, selection);
    if let Ok(first) = planner.plan(&graph, &UpperBound(&limits)) {
        let again: Plan = planner.plan(&graph, &UpperBound(&limits)).expect("what was planned is planned again");
        assert_eq!(first.steps, again.steps);
        if let Some(profile) = &preset.profile {
            predict(&first, &graph, profile);
        }
    }
    Ok(())
}

fn external(graph: &mut Graph, u: &mut Unstructured<'_>) -> Result<()> {
    let dtype = if u.ratio(2, 3)? { DType::F32 } else { *u.choose(&DType::ALL)? };
    graph.external("", dtype, numbers(u)?);
    Ok(())
}

fn node(graph: &mut Graph, u: &mut Unstructured<'_>) -> Result<()> {
    let op = ops::op(u)?;
    let row = op.row();
    let count =
        if u.ratio(1, 16)? { u.int_in_range(0..=9)? } else { u.int_in_range(row.min_operands..=row.max_operands)? };
    let inputs = (0..count).map(|_| operand(graph, u)).collect::<Result<Vec<_>>>()?;
    match u.int_in_range(0..=7)? {
        0 => {
            let output = value(graph, u)?;
            graph.node_into("", op, inputs, output);
            if graph.verify().is_err() {
                graph.nodes.pop();
            }
        }
        1 => drop(graph.node_as("", op, inputs, Desc { dtype: *u.choose(&DType::ALL)?, shape: numbers(u)? })),
        2 => drop(graph.node_as("", op, inputs, Desc::f32(numbers(u)?))),
        _ => drop(graph.node("", op, inputs)),
    }
    Ok(())
}

/// Any value that the graph has.
fn value(graph: &Graph, u: &mut Unstructured<'_>) -> Result<ValueId> {
    let at = u.choose_index(graph.values.len())?;
    Ok(graph.ids().nth(at).expect("it is one of them"))
}

/// A window over a value: through views, or of any numbers.
fn operand(graph: &Graph, u: &mut Unstructured<'_>) -> Result<Operand> {
    let mut operand = graph.whole(value(graph, u)?);
    if u.ratio(1, 32)? {
        return Ok(Operand {
            shape: numbers(u)?,
            strides: [wide(u)?, wide(u)?, wide(u)?, wide(u)?],
            offset: wide(u)?,
            ..operand
        });
    }
    for _ in 0..MOST_VIEWS {
        let viewed = match u.int_in_range(0..=9)? {
            0 => operand.permute(*u.choose(&[[1, 0, 2, 3], [0, 2, 1, 3], [2, 1, 0, 3], [0, 1, 3, 2], [0, 0, 1, 2]])?),
            1 => operand.reshape(numbers(u)?),
            2 => operand.slice(u.int_in_range(0..=3)?, number(u)?.wrapping_sub(1), number(u)?),
            3 => operand.expand(u.int_in_range(0..=3)?, number(u)?),
            4 => Ok(operand.transpose()),
            _ => break,
        };
        operand = viewed.unwrap_or(operand);
    }
    Ok(operand)
}
