//! Ops in pieces: what they bind, and that they do not wait for each other.

use super::{Exact, ONE_BY_ONE};
use crate::device::Limits;
use crate::graph::{DType, Desc, Graph, Inset, Op, Unary, ValueId};
use crate::plan::{Plan, PlanError, PlanOptions, Step, StorageChoice, TEXEL_BYTES, plan};

const RANGE: u64 = 16 << 10;

/// A plan in buffers, of which a binding holds little.
fn small(graph: &Graph) -> Result<Plan, PlanError> {
    let limits = Limits { max_storage_buffer_range: RANGE, storage_buffer_alignment: 256, ..Limits::for_tests() };
    let options = PlanOptions { storage: StorageChoice::Buffer, ..ONE_BY_ONE };
    graph.verify().unwrap();
    plan(graph, &limits, options, &Exact)
}

/// A graph with an external value, and all of that value.
fn given(dtype: DType, shape: [u32; 4]) -> (Graph, ValueId) {
    let mut graph = Graph::default();
    let value = graph.external("x", dtype, shape);
    (graph, value)
}

/// Rows of texels that an operand of a step binds: they lie in its slot, start where a binding can, and are no more than it holds.
fn bound(plan: &Plan, step: &Step, operand: usize) -> std::ops::Range<u32> {
    let home = &plan.slots[step.args[operand].0].home;
    let rows = step.rows.iter().find(|(named, _)| *named == operand).map_or(0..home.height, |(_, rows)| rows.clone());
    let bytes = |rows: u32| u64::from(rows) * u64::from(home.width) * TEXEL_BYTES;
    assert!(rows.start < rows.end && rows.end <= home.height, "{rows:?} of {}", home.height);
    assert!(bytes(rows.start).is_multiple_of(256) && bytes(rows.end - rows.start) <= RANGE, "{rows:?}");
    rows
}

#[test]
fn pieces_share_slots_and_do_not_wait() {
    let (mut graph, x) = given(DType::F32, [101, 37, 3, 2]);
    let y = graph.node("y", Op::Unary(Unary::Neg), vec![graph.whole(x)]).unwrap();
    let z = graph.node("z", Op::Unary(Unary::Neg), vec![graph.whole(y)]).unwrap();
    graph.keep(z);
    let plan = small(&graph).unwrap();
    for node in [0, 1] {
        let pieces: Vec<&Step> = plan.steps.iter().filter(|step| step.node == node).collect();
        assert!(pieces.len() > 6, "{} pieces of 100 KiB", pieces.len());
        assert_eq!((pieces[0].beside, pieces[0].barrier), (false, node > 0), "the first waits for what it reads");
        assert!(pieces[1..].iter().all(|piece| piece.beside && !piece.barrier));
        assert!(pieces.iter().all(|piece| piece.args == pieces[0].args));
        for operand in [0, 1] {
            let mut rows: Vec<_> = pieces.iter().map(|piece| bound(&plan, piece, operand)).collect();
            rows.sort_by_key(|rows| rows.start);
            let height = plan.slots[pieces[0].args[operand].0].home.height;
            assert!(rows[0].start == 0 && rows.iter().any(|rows| rows.end == height));
            assert!(rows.windows(2).all(|pair| pair[1].start <= pair[0].end), "no row is left out: {rows:?}");
        }
    }
}

/// Parts of a sum are made side by side; one dispatch waits for them all.
#[test]
fn sums_wait_for_their_parts() {
    let (mut graph, w) = given(DType::Q8_0, [64, 900, 1, 1]);
    let g = graph.external("g", DType::F32, [4, 900, 1, 1]);
    let product = graph.node("dx", Op::OutProd, vec![graph.whole(w), graph.whole(g)]).unwrap();
    graph.keep(product);
    let plan = small(&graph).unwrap();
    let (sum, parts) = plan.steps.split_last().unwrap();
    assert!(parts.len() > 3 && !parts[0].beside && parts[1..].iter().all(|part| part.beside && !part.barrier));
    assert!(sum.shader == "repeat_back" && sum.barrier && !sum.beside);
    for step in &plan.steps {
        for operand in 0..step.args.len() {
            bound(&plan, step, operand);
        }
    }
}

/// Every piece of a table goes over all ids, and writes rows of its own.
#[test]
fn pieces_of_a_table_do_not_wait() {
    let (mut graph, table) = given(DType::F32, [64, 900, 1, 1]);
    let ids = graph.external("ids", DType::I32, [5, 1, 1, 1]);
    let rows = graph.node("rows", Op::GetRows, vec![graph.whole(table), graph.whole(ids)]).unwrap();
    graph.keep(rows);
    let plan = small(&graph).unwrap();
    assert!(plan.steps.len() >= 15, "{} pieces of 225 KiB", plan.steps.len());
    assert!(!plan.steps[0].beside && plan.steps[1..].iter().all(|piece| piece.beside && !piece.barrier));
    let mut rows: Vec<_> = plan.steps.iter().map(|piece| bound(&plan, piece, 0)).collect();
    rows.sort_by_key(|rows| rows.start);
    let height = plan.slots[plan.steps[0].args[0].0].home.height;
    assert!(rows[0].start == 0 && rows.iter().any(|rows| rows.end == height));
    assert!(rows.windows(2).all(|pair| pair[1].start <= pair[0].end), "no row is left out: {rows:?}");
}

/// The cache is bound in ranges of its rows, whichever of them the ids name.
#[test]
fn pieces_of_a_cache_do_not_wait() {
    let (mut graph, cache) = given(DType::F16, [64, 900, 1, 1]);
    let rows = graph.external("rows", DType::F32, [64, 5, 1, 1]);
    let ids = graph.external("ids", DType::I32, [5, 1, 1, 1]);
    let inset = Inset { shape: [64, 900, 1, 1], strides: [1, 64, 57600, 57600], offset: 0 };
    let inputs = [cache, rows, ids].map(|value| graph.whole(value)).to_vec();
    graph.node_into("cache", Op::SetRows(inset), inputs, cache);
    let plan = small(&graph).unwrap();
    assert!(plan.steps.len() >= 8, "{} pieces of 112 KiB", plan.steps.len());
    assert!(!plan.steps[0].beside && plan.steps[1..].iter().all(|piece| piece.beside && !piece.barrier));
}

#[test]
fn what_is_not_cut_is_refused_with_the_limit() {
    let mut graph = Graph::default();
    let line = graph.node_as(
        "line",
        Op::Arange { start: 0.0, step: 1.0 },
        Vec::new(),
        Desc { dtype: DType::F32, shape: [9000, 1, 1, 1] },
    );
    graph.keep(line.unwrap());
    let error = small(&graph).unwrap_err().to_string();
    assert!(error.contains("output: 36000 bytes, of 16384 in a binding"), "{error}");
    assert!(error.contains("ARANGE is not cut"), "{error}");
}

/// Indices of texels count in what is bound, which is less than 4 GiB; what numbers elements is refused beyond 32 bits of them.
#[test]
fn tensors_beyond_32_bits_of_elements() {
    let limits = Limits { max_allocation: u64::MAX, max_storage_buffer_range: u32::MAX.into(), ..Limits::for_tests() };
    let options = PlanOptions { storage: StorageChoice::Buffer, ..ONE_BY_ONE };
    let (mut graph, x) = given(DType::F32, [1 << 16, 1 << 18, 1, 1]);
    let y = graph.node("y", Op::Unary(Unary::Neg), vec![graph.whole(x)]).unwrap();
    graph.keep(y);
    let plan = plan(&graph, &limits, options, &Exact).unwrap();
    assert!(plan.steps.len() > 16, "{} pieces of 64 GiB", plan.steps.len());
    for step in &plan.steps {
        for (operand, rows) in &step.rows {
            let home = &plan.slots[step.args[*operand].0].home;
            assert!(u64::from(rows.end - rows.start) * u64::from(home.width) * TEXEL_BYTES <= u32::MAX.into());
        }
    }

    let (mut graph, x) = given(DType::F32, [3, 5, 1 << 20, 1 << 9]);
    let desc = Desc { dtype: DType::F32, shape: [5, 3, 1 << 20, 1 << 9] };
    let y = graph.node_as("y", Op::Copy, vec![graph.whole(x)], desc).unwrap();
    graph.keep(y);
    let error = super::super::plan(&graph, &limits, options, &Exact).unwrap_err().to_string();
    assert!(error.contains("8053063680 elements") && error.contains("32 bits"), "{error}");
}

/// What would take thousands of dispatches is refused before they are all made.
#[test]
fn pieces_have_an_end() {
    let (mut graph, x) = given(DType::F32, [1 << 10, 1 << 15, 1, 1]);
    let y = graph.node("y", Op::Unary(Unary::Neg), vec![graph.whole(x)]).unwrap();
    graph.keep(y);
    let refusal = small(&graph).unwrap_err().to_string();
    assert!(refusal.contains("more than 4096 dispatches"), "{refusal}");
}
