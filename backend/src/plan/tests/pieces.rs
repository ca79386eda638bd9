//! Ops in pieces: what they bind, and that they do not wait for each other.

use super::{Exact, ONE_BY_ONE};
use crate::device::Limits;
use crate::graph::{DType, Graph, Op, Unary, ValueId};
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

#[test]
fn what_is_not_cut_is_refused_with_the_limit() {
    let (mut graph, table) = given(DType::F32, [64, 900, 1, 1]);
    let ids = graph.external("ids", DType::I32, [5, 1, 1, 1]);
    let rows = graph.node("rows", Op::GetRows, vec![graph.whole(table), graph.whole(ids)]).unwrap();
    graph.keep(rows);
    let error = small(&graph).unwrap_err().to_string();
    assert!(error.contains("operand 0: 230400 bytes, of 16384 in a binding"), "{error}");
    assert!(error.contains("GET_ROWS is not cut"), "{error}");
}
