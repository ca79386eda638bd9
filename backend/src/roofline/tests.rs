use std::time::Duration;

use crate::device::{Estimate, Limits, Preset, Profile};
use crate::graph::{Binary, DType, Graph, Op, Unary};
use crate::plan::{PlanOptions, Policy, UpperBound, plan};

use super::{Bound, Ceiling, Kind, Measured, Phase, Recorder, Roof, Times, kinds};

fn kind(op: &str, flops: u64, bytes: u64) -> Kind {
    let reads = Bound {
        access: "reads".into(),
        dtype: "F16".into(),
        shape: [64, 3, 1, 1],
        storage: "image".into(),
        along: Some(0),
    };
    let writes = Bound { access: "writes".into(), dtype: "F32".into(), storage: "buffer".into(), ..reads.clone() };
    Kind {
        op: op.into(),
        conversion: false,
        shader: "gemm".into(),
        schedule: "3 workgroups of 32 invocations".into(),
        operands: vec![reads, writes],
        flops,
        bytes,
        requests: 7,
    }
}

fn h200() -> Profile {
    Preset::machines().find(|(preset, _)| preset.name == "h200").map(|(_, profile)| profile.clone()).unwrap()
}

#[test]
fn runs_are_summed_by_kind_and_the_first_of_a_program_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deeper").join("steps.json");
    let recorder = Recorder::new(&file, "a device".into(), Some(h200()));
    let (product, sum) = (kind("MUL_MAT", 4096, 512), kind("ADD", 64, 768));
    let numbers = recorder.number(vec![product.clone(), sum.clone(), product.clone()]);
    assert_eq!(numbers, [0, 1, 0]);
    // Another program has some of the same kinds.
    assert_eq!(recorder.number(vec![sum.clone()]), [1]);
    let waited = Duration::from_millis(2);
    recorder.timed(Phase::Plan, || std::thread::sleep(waited));
    recorder.ran(true, &numbers, &[1e6, 2e6, 3e6]);
    for step in [100.4, 90.0] {
        assert_eq!(recorder.timed(Phase::Submit, || 5), 5);
        recorder.ran(false, &numbers, &[step, 10.0, 120.0]);
    }
    recorder.keep();
    let measured = Measured::read(&file).unwrap();
    assert_eq!((measured.device.as_str(), measured.machine.as_ref()), ("a device", Some(&h200())));
    let [first, second] = &measured.steps[..] else { panic!("{measured:?}") };
    assert_eq!((&first.kind, &second.kind), (&product, &sum));
    assert_eq!(first.first, Times { count: 2, total_ns: 4_000_000, min_ns: 1_000_000 });
    assert_eq!(first.again, Times { count: 4, total_ns: 430, min_ns: 90 });
    assert_eq!(second.again, Times { count: 2, total_ns: 20, min_ns: 10 });
    assert_eq!(measured.again.device, Times { count: 2, total_ns: 450, min_ns: 220 });
    assert!(measured.first.cpu.keys().eq([&Phase::Plan]) && measured.again.cpu.keys().eq([&Phase::Submit]));
    assert_eq!(measured.again.cpu[&Phase::Submit].count, 2);
    let plan = measured.first.cpu[&Phase::Plan];
    assert!(plan.min_ns >= 2_000_000 && measured.first.wall.min_ns >= plan.min_ns, "{measured:?}");
    assert_eq!(measured.by_time(), [(&product, first.again), (&sum, second.again)]);
}

#[test]
fn a_process_that_frees_nothing_leaves_a_file_and_damage_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steps.json");
    let recorder = Recorder::new(&file, "a device".into(), None);
    let numbers = recorder.number(vec![kind("ADD", 64, 768)]);
    let missing = Measured::read(&file).unwrap_err().to_string();
    assert!(missing.contains("steps.json"), "{missing}");
    // After runs 1, 2 and 4, and where the recorder goes.
    let count = || Measured::read(&file).unwrap().first.device.count;
    for (run, kept) in [(1, 1), (2, 2), (3, 2), (4, 4), (5, 4)] {
        recorder.ran(true, &numbers, &[7.0]);
        assert_eq!(count(), kept, "after {run}");
    }
    drop(recorder);
    assert_eq!(count(), 5);
    // Where every program ran once, that is what is told.
    let measured = Measured::read(&file).unwrap();
    assert_eq!(measured.by_time()[0].1.count, 5);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    let damaged = Measured::read(&file).unwrap_err().to_string();
    assert!(damaged.contains("FBL_ROOFLINE"), "{damaged}");
}

#[test]
fn the_steps_of_a_plan_are_described_with_their_work() {
    let (m, n, k) = (64, 12, 32);
    let mut g = Graph::new();
    let a = g.external("a", DType::F16, [k, m, 1, 1]);
    let b = g.external("b", DType::F32, [k, n, 1, 1]);
    let bias = g.external("bias", DType::F32, [m, n, 1, 1]);
    let operands = vec![g.whole(a), g.whole(b)];
    let product = g.node("product", Op::MulMat, operands).unwrap();
    let operands = vec![g.whole(product), g.whole(bias)];
    let sum = g.node("sum", Op::Binary(Binary::Add), operands).unwrap();
    let operands = vec![g.whole(sum)];
    let twice = g.node("twice", Op::Unary(Unary::Silu), operands).unwrap();
    g.keep(twice);
    let limits = Limits::for_tests();
    for (policy, ops) in [(Policy::RTileMaps, vec!["MUL_MAT", "ADD", "SILU"]), (Policy::Full, vec!["MUL_MAT+ADD+SILU"])]
    {
        let options = PlanOptions { policy, ..PlanOptions::default() };
        let planned = plan(&g, &limits, options, &UpperBound(&limits)).unwrap();
        let kinds = kinds(&planned, &g, 32);
        assert!(kinds.iter().map(|kind| kind.op.as_str()).eq(ops), "{kinds:?}");
        let texts: Vec<String> = kinds[0].operands.iter().map(ToString::to_string).collect();
        assert_eq!(texts[..2], ["reads F16 32x64 buffer", "reads F32 32x12 buffer"], "{texts:?}");
        // Two for every term; one for every element of the sum and four of the function.
        let [m, n, k] = [m, n, k].map(u64::from);
        assert_eq!(kinds.iter().map(|kind| kind.flops).sum::<u64>(), 2 * m * n * k + 5 * m * n);
        // Every operand once: rows are whole texels, and n is whole strips.
        let between = if kinds.len() == 3 { 4 * 4 * m * n } else { 0 };
        assert_eq!(kinds.iter().map(|kind| kind.bytes).sum::<u64>(), 2 * k * m + 4 * (k * n + 2 * m * n) + between);
    }
}

#[test]
fn the_highest_time_of_a_step_at_full_rates_is_its_roof() {
    let machine = h200();
    let (cached, large) = ((machine.l2_bytes.mid / 4.0) as u64, (machine.l2_bytes.mid * 8.0) as u64);
    let of = |flops, bytes| Roof::of(&kind("MUL_MAT", flops, bytes), &machine);
    let launch = of(10, 10);
    assert_eq!((launch.ceiling, launch.seconds), (Ceiling::Launch, machine.launch.mid));
    let memory = of(10, large);
    assert_eq!((memory.ceiling, memory.seconds), (Ceiling::Memory, large as f64 / machine.memory_rate.mid));
    let cache = of(10, cached);
    assert_eq!((cache.ceiling, cache.seconds), (Ceiling::Cache, cached as f64 / machine.l2_rate.mid));
    let arithmetic = of(1 << 50, large);
    assert_eq!(arithmetic.ceiling, Ceiling::Arithmetic);
    assert_eq!(arithmetic.seconds, (1_u64 << 50) as f64 / machine.flops_f32.mid);
    // What matrix units compute is held against these, and in parts takes three of their products; where nobody measured them, it has no such roof.
    let half = Profile { matrix_f16: Some(Estimate::known(1e14)), ..machine.clone() };
    let by = |shader: &str, machine| {
        Roof::of(&Kind { shader: shader.to_owned(), ..kind("MUL_MAT", 1 << 50, large) }, machine)
    };
    for (shader, rate) in
        [("gemm_matrix", 1e14), ("attention_matrix2_masked", 1e14), ("gemm_matrix_parted", 1e14 / 3.0)]
    {
        let roof = by(shader, &half);
        assert_eq!((roof.ceiling, roof.seconds), (Ceiling::Arithmetic, (1_u64 << 50) as f64 / rate), "{shader}");
    }
    assert_eq!(by("gemm_matrix_bf16", &half).ceiling, Ceiling::Memory);
}
