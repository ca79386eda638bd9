//! Runs a case on a device: node by node on the reference's values, whole, and as the engine's scheduler places it.

use anyhow::{Context as _, Result, ensure};
use ggml_host::{Backend, Context, Plan, Tensor, Usage};

use super::kit::{Kit, Mark, Side, elements_of, set_elements};
use super::rounding::{Added, Rounding};
use super::values::decode;

/// Room for the tensors of a case, its sentinels and its views.
const TENSORS: usize = 1024;
/// Room for the nodes of its graph.
const NODES: usize = 4096;

/// A case: a name that tells all about it, and the steps that build it.
pub struct Case {
    /// Unique; it seeds the values.
    pub name: String,
    /// Whether it belongs to the bounded part.
    pub bounded: bool,
    /// Builds one side.
    pub build: Box<dyn for<'c> Fn(&Kit<'c>)>,
}

/// What became of a case.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is within its bounds.
    Passed,
    /// The device does not run this op.
    Unsupported(String),
    /// What is wrong.
    Failed(String),
}

/// Contents after the reference ran.
struct Reference {
    /// Of every node right after it ran.
    steps: Vec<Vec<u8>>,
    /// Of every node at the end.
    ends: Vec<Vec<u8>>,
    /// Of the inputs that nodes update, at the end.
    updated: Vec<Vec<u8>>,
}

/// Runs a case on `device`, which rounds factors so, and compares it with `cpu`.
pub fn run(case: &Case, device: &Backend, rounding: Rounding, cpu: &Backend) -> Verdict {
    match try_run(case, device, rounding, cpu) {
        Ok(None) => Verdict::Passed,
        Ok(Some(op)) => Verdict::Unsupported(op),
        Err(why) => Verdict::Failed(format!("{why:#}")),
    }
}

fn try_run(case: &Case, device: &Backend, rounding: Rounding, cpu: &Backend) -> Result<Option<String>> {
    if let Some(op) = unsupported(case, device)? {
        return Ok(Some(op));
    }
    let reference = reference(case, Side::Reference, cpu).context("reference")?;
    let magnitudes = magnitudes(case, cpu).context("magnitudes")?;
    let magnitude = |at: usize| magnitudes.as_ref().map(|all| &all[at][..]);
    node_by_node(case, device, rounding, &reference, magnitude).context("node by node")?;
    whole(case, device, rounding, &reference, magnitude).context("whole graph")?;
    if reference.steps.len() > 1 {
        scheduled(case, [device, cpu], rounding, &reference, magnitude).context("scheduled graph")?;
    }
    Ok(None)
}

fn unsupported(case: &Case, device: &Backend) -> Result<Option<String>> {
    let contexts = contexts();
    let kit = built(case, Side::Device, &contexts);
    let nodes = kit.graph()?.nodes();
    let refused = nodes.into_iter().find(|&n| !n.is_free() && !device.device().supports(n));
    Ok(refused.map(|n| n.describe_op()))
}

fn contexts() -> (Context, Context) {
    (Context::new(TENSORS, 0), Context::new(TENSORS, NODES))
}

/// The tensors of a case in these contexts.
fn built<'c>(case: &Case, side: Side, (data, work): &'c (Context, Context)) -> Kit<'c> {
    let kit = Kit::new(side, &case.name, data, work);
    (case.build)(&kit);
    kit
}

fn position(marks: &[Mark<'_>], node: Tensor<'_>) -> Option<usize> {
    marks.iter().position(|mark| mark.tensor == node)
}

fn reference(case: &Case, side: Side, cpu: &Backend) -> Result<Reference> {
    let contexts = contexts();
    let kit = built(case, side, &contexts);
    let graph = kit.graph()?;
    kit.allocate(cpu.device(), Usage::Any)?;
    let nodes = kit.nodes();
    let mut steps = vec![Vec::new(); nodes.len()];
    cpu.compute_nodes(&graph, |node| {
        if let Some(at) = position(&nodes, node) {
            steps[at] = elements_of(node).map_err(|e| ggml_host::Error::Graph(e.to_string()))?;
        }
        Ok(())
    })?;
    let all = |marks: &[Mark<'_>]| marks.iter().map(|mark| elements_of(mark.tensor)).collect::<Result<Vec<_>>>();
    Ok(Reference { steps, ends: all(&nodes)?, updated: all(&kit.updated())? })
}

/// Results of the same graph on the inputs' magnitudes, where a bound wants them.
fn magnitudes(case: &Case, cpu: &Backend) -> Result<Option<Vec<Vec<f32>>>> {
    let contexts = contexts();
    let kit = built(case, Side::Magnitude, &contexts);
    let nodes = kit.nodes();
    if !nodes.iter().any(|mark| mark.bound.needs_magnitudes()) {
        return Ok(None);
    }
    let reference = reference(case, Side::Magnitude, cpu)?;
    let decoded = nodes.iter().zip(&reference.steps).map(|(mark, bytes)| decode(mark.tensor.dtype(), bytes));
    decoded.collect::<Result<Vec<_>>>().map(Some)
}

/// Every node by itself; after it was compared it gets the reference's content, so that no error is passed on.
fn node_by_node<'m>(
    case: &Case,
    device: &Backend,
    rounding: Rounding,
    reference: &Reference,
    magnitude: impl Fn(usize) -> Option<&'m [f32]>,
) -> Result<()> {
    let contexts = contexts();
    let kit = built(case, Side::Device, &contexts);
    let graph = kit.graph()?;
    kit.allocate(device.device(), Usage::Any)?;
    let nodes = kit.nodes();
    let mut seen = 0;
    device.compute_nodes(&graph, |node| {
        let Some(at) = position(&nodes, node) else { return Ok(()) };
        seen += 1;
        let compare = || -> Result<()> {
            let got = elements_of(node)?;
            nodes[at].bound.check(node.dtype(), &got, &reference.steps[at], magnitude(at), rounding.of_node(node))?;
            if nodes.len() > 1 {
                set_elements(node, &reference.steps[at])?;
            }
            Ok(())
        };
        compare().map_err(|e| ggml_host::Error::Graph(format!("{}: {e:#}", node.describe_op())))
    })?;
    ensure!(seen == nodes.len(), "{seen} of {} nodes ran", nodes.len());
    check_updated(&kit, reference)?;
    kit.check_untouched()
}

/// All nodes as one graph with its results in a buffer for computing, where a backend may leave values out that nobody reads. The second
/// run is a replay.
fn whole<'m>(
    case: &Case,
    device: &Backend,
    rounding: Rounding,
    reference: &Reference,
    magnitude: impl Fn(usize) -> Option<&'m [f32]>,
) -> Result<()> {
    let contexts = contexts();
    let kit = built(case, Side::Device, &contexts);
    let graph = kit.graph()?;
    let factors = rounding.of_graph(graph.nodes());
    kit.allocate(device.device(), Usage::Compute)?;
    for round in ["first run", "second run"] {
        kit.fill()?;
        device.compute(&graph)?;
        check_ends(&kit, factors, reference, &magnitude).context(round)?;
    }
    Ok(())
}

/// All nodes as the engine's scheduler places them, which gives the memory of one result to the next, twice.
fn scheduled<'m>(
    case: &Case,
    backends: [&Backend; 2],
    rounding: Rounding,
    reference: &Reference,
    magnitude: impl Fn(usize) -> Option<&'m [f32]>,
) -> Result<()> {
    let contexts = contexts();
    let kit = built(case, Side::Device, &contexts);
    let graph = kit.graph()?;
    let factors = rounding.of_graph(graph.nodes());
    kit.allocate_inputs(backends[0].device())?;
    let mut plan = Plan::new(&backends.map(Clone::clone), graph)?;
    ensure!(plan.splits() == 1, "the scheduler cuts the graph into {} pieces", plan.splits());
    for round in ["first run", "second run"] {
        kit.fill()?;
        plan.compute()?;
        check_ends(&kit, factors, reference, &magnitude).context(round)?;
    }
    Ok(())
}

/// Compares what is there when a whole graph has run.
fn check_ends<'m>(
    kit: &Kit<'_>,
    factors: Added,
    reference: &Reference,
    magnitude: impl Fn(usize) -> Option<&'m [f32]>,
) -> Result<()> {
    for (at, mark) in kit.nodes().iter().enumerate() {
        let Some(bound) = mark.whole else { continue };
        let got = elements_of(mark.tensor)?;
        let checked = bound.check(mark.tensor.dtype(), &got, &reference.ends[at], magnitude(at), factors);
        checked.with_context(|| mark.tensor.describe_op())?;
    }
    check_updated(kit, reference)?;
    kit.check_untouched()
}

fn check_updated(kit: &Kit<'_>, reference: &Reference) -> Result<()> {
    for (mark, want) in kit.updated().iter().zip(&reference.updated) {
        let got = elements_of(mark.tensor)?;
        mark.bound
            .check(mark.tensor.dtype(), &got, want, None, Added::default())
            .context("an input that is updated")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ggml_host::{DeviceKind, devices, load_installed_backends};

    use super::*;
    use crate::own::bound::Bound;
    use crate::own::kit::View;

    /// The CPU against itself.
    fn verdict(build: impl for<'c> Fn(&Kit<'c>) + 'static) -> Verdict {
        load_installed_backends().unwrap();
        let cpu = devices().into_iter().find(|device| device.kind() == DeviceKind::Cpu).unwrap();
        let case = Case { name: "a case".to_owned(), bounded: true, build: Box::new(build) };
        run(&case, &Backend::open(cpu).unwrap(), Rounding::default(), &Backend::open(cpu).unwrap())
    }

    #[test]
    fn a_device_that_computes_the_same_passes() {
        let verdict = verdict(|k| {
            let x = k.f32(&[33, 3], View::Sliced);
            k.result(k.ops().add_in_place(x, k.f32(&[33], View::Dense)), Bound::Exact);
        });
        assert_eq!(verdict, Verdict::Passed);
    }

    #[test]
    fn a_device_that_computes_something_else_fails() {
        let built = Cell::new(0);
        let verdict = verdict(move |k| {
            built.set(built.get() + 1);
            k.result(k.ops().scale(k.f32(&[33, 3], View::Dense), built.get() as f32), Bound::roundings(1));
        });
        assert!(matches!(&verdict, Verdict::Failed(why) if why.contains("99 of 99 elements off")), "{verdict:?}");
    }

    #[test]
    fn a_write_where_no_node_says_so_fails() {
        let verdict = verdict(|k| {
            let x = k.f32(&[33, 3], View::Dense);
            k.result(k.ops().add(k.ops().scale_in_place(x, 2.0), k.f32(&[33], View::Dense)), Bound::Exact);
        });
        assert!(matches!(&verdict, Verdict::Failed(why) if why.contains("of input 0 changed")), "{verdict:?}");
    }
}
