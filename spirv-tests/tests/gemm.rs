//! Products in every schedule, whatever the shape would choose: the four directions, types of weights, batches, parts of k, epilogues.

use fblayout::device::{ByteDots, Limits, LimitsClamp, Products};
use fblayout::graph::{DType, Family, Op};
use fblayout::kernels::Norm;
use fblayout::plan::{Plan, PlanOptions, StorageChoice, UpperBound, plan};
use fblayout_spirv_tests::{Case, FusedCase, STORAGES, VulkanDevice, cases, check_all};

/// The tile that shapes choose.
const STAGED: &str = r#"{"schedule": "staged"}"#;

/// A tile that is long along k, of a single buffer: an invocation loads several fragments of either operand.
const LONG: &str = r#"{"schedule": "staged", "tile":
    {"quads_m": 1, "quads_n": 1, "lanes_m": 4, "lanes_n": 4, "quads_k": 8, "buffers": 1}}"#;

/// A tile that is wide along m and short along k: not every invocation loads of the right operand.
const WIDE: &str = r#"{"schedule": "staged", "tile":
    {"quads_m": 2, "quads_n": 1, "lanes_m": 8, "lanes_n": 2, "quads_k": 2}}"#;

/// Sums across a workgroup.
const ACROSS: &str = r#"{"schedule": "across"}"#;

/// The same with the right factor as bytes, where weights let it be; in the second a workgroup has four steps at a time, each of eight rows.
const DOTS: [&str; 2] = [
    r#"{"schedule": "across", "dots": true}"#,
    r#"{"schedule": "across", "dots": true, "across":
        {"quads_m": 2, "columns": 4, "lanes_m": 2, "lanes_n": 1, "lanes_k": 2}}"#,
];

/// No shared memory.
const DIRECT: &str = r#"{"schedule": "direct"}"#;

/// What a small device has.
const SMALL: &str =
    r#", "max_shared_memory": 16384, "max_workgroup_invocations": 128, "max_workgroup_size": [128, 128, 64]"#;

fn device(storage: StorageChoice, schedule: &str, more: &str) -> VulkanDevice {
    let clamp = LimitsClamp::parse(&format!(r#"{{"products": {schedule}{more}}}"#)).expect("a clamp");
    let options = PlanOptions { storage, ..PlanOptions::default() };
    let device = VulkanDevice::open_with(options, Some(clamp)).expect("a Vulkan device");
    let has_units = !device.engine().limits().matrix_units.is_empty();
    assert!(has_units || !schedule.contains("matrix"), "the device has no matrix units");
    device
}

/// Whether a case has something that no other of the sample has for schedules: shapes that are edges of every tile, all
/// directions at once, weights in both of theirs.
fn tells(case: &Case) -> bool {
    let tells = [
        "k 33 m 65 n 3",
        "k 130 m 50 n 13",
        "k 33 m 17 n 9,",
        "k 96 m 33 n 2",
        "floats",
        "shared heads",
        "Q4_1 heads",
        "lanes along",
        "long k",
        "range of F32",
    ];
    !case.name.contains("tokens") && tells.iter().any(|part| case.name.contains(part))
}

/// The constant that says how many invocations go over k side by side.
const LANES_K: u32 = 11;

/// Whether a plan has a product in the schedule that was asked for.
fn has(plan: &Plan, schedule: &str) -> bool {
    plan.steps.iter().any(|step| match schedule {
        ACROSS => {
            step.shader.starts_with("gemm") && step.constants.iter().any(|&(id, lanes)| id == LANES_K && lanes > 1)
        }
        _ if DOTS.contains(&schedule) => step.shader.starts_with("gemm_dots"),
        DIRECT => ["gemm", "gemm_subgroup"].contains(&step.shader),
        _ if schedule.contains("matrix") => step.shader.starts_with("gemm_matrix"),
        _ => step.shader.starts_with("gemm_staged"),
    })
}

fn assert_cases(storage: StorageChoice, cases: &[Case], schedule: &str, more: &str) {
    let device = device(storage, schedule, more);
    let limits = device.engine().limits();
    let planned = |case: &Case| plan(&case.graph, limits, device.options(), &UpperBound(limits)).expect("a plan");
    let others: Vec<&Case> = cases.iter().filter(|case| !has(&planned(case), schedule)).collect();
    // One block is all of this one's k, which cannot be spread.
    let excused = |case: &Case| schedule == ACROSS && case.name.contains("Q4_1 heads");
    assert!(others.iter().all(|case| excused(case)), "{schedule} is not that of {}", others[0].name);
    let lines: Vec<String> = check_all(&device, cases).iter().map(|f| format!("{storage:?} {f}")).collect();
    assert!(lines.is_empty(), "{schedule}: {} cases fail\n{}", lines.len(), lines.join("\n"));
    device.assert_valid();
}

fn products() -> Vec<Case> {
    let of_gemm = |case: &Case| matches!(case.node().op, Op::MulMat | Op::OutProd) && tells(case);
    cases::of(Family::Gemm).into_iter().filter(of_gemm).collect()
}

/// Every `step`-th of the products from number `first` on, half of them in each storage: a processor takes a second or two to
/// compile such a shader.
fn assert_products(first: usize, step: usize, schedule: &str, more: &str) {
    let cases: Vec<Case> = products().into_iter().skip(first).step_by(step).collect();
    let (buffers, images) = cases.split_at(cases.len() / 2);
    for (storage, cases) in STORAGES.into_iter().zip([buffers, images]) {
        assert_cases(storage, cases, schedule, more);
    }
}

// Each case is in one of the three staged tiles.

#[test]
fn staged() {
    assert_products(0, 3, STAGED, "");
}

#[test]
fn staged_in_one_buffer() {
    assert_products(1, 3, LONG, "");
}

#[test]
fn staged_in_little_memory() {
    assert_products(2, 3, WIDE, SMALL);
}

#[test]
fn across() {
    assert_products(0, 1, ACROSS, "");
}

fn beyond_halves() -> Vec<Case> {
    let cases = cases::of(Family::Gemm).into_iter().filter(|case| case.name.contains("beyond 65504"));
    cases.collect()
}

/// No schedule keeps a sum in F16, nor one of its parts.
#[test]
fn sums_beyond_the_range_of_f16() {
    for (schedule, storage) in [DIRECT, ACROSS, STAGED, LONG, WIDE].into_iter().zip(STORAGES.into_iter().cycle()) {
        assert_cases(storage, &beyond_halves(), schedule, "");
    }
}

/// Blocks as the host has them are decoded by other modules; a type for each schedule, in both directions.
#[test]
fn blocks_in_every_schedule() {
    let [buffers, images] = STORAGES;
    for (dtype, schedule, storage) in [
        (DType::Q4_0, LONG, buffers),
        (DType::MXFP4, WIDE, images),
        (DType::Q6_K, ACROSS, buffers),
        // Nibbles by runs: of blocks that begin at any byte, at any other, at half texels, at whole ones.
        (DType::MXFP4, ACROSS, buffers),
        (DType::Q4_0, ACROSS, images),
        (DType::IQ4_XS, ACROSS, buffers),
        (DType::Q4_K, ACROSS, buffers),
    ] {
        let tells = |case: &Case| {
            let product = matches!(case.node().op, Op::MulMat | Op::OutProd);
            product && case.dtypes()[0] == dtype && case.name.contains("along")
        };
        let cases: Vec<Case> = cases::stored().into_iter().filter(tells).collect();
        assert_eq!(cases.len(), 2, "{dtype:?}");
        assert_cases(storage, &cases, schedule, "");
    }
}

/// Every other case in buffers, the others in images.
#[test]
fn right_factors_as_bytes() {
    for (first, storage) in STORAGES.into_iter().enumerate() {
        let cases: Vec<Case> = cases::dots().into_iter().skip(first).step_by(2).collect();
        assert_cases(storage, &cases, DOTS[0], "");
    }
}

/// A case of each type: a processor takes long to compile these.
#[test]
fn right_factors_as_bytes_by_eight_rows() {
    let floats = |case: &Case| case.name.contains("m 33") && case.name.contains("floats");
    for (first, storage) in STORAGES.into_iter().enumerate() {
        let cases: Vec<Case> = cases::dots().into_iter().filter(floats).skip(first).step_by(2).collect();
        assert_cases(storage, &cases, DOTS[1], "");
    }
}

/// What the device has not accelerated is not chosen, and what `FBL_LIMITS` switches off is not used at all.
#[test]
fn right_factors_are_rounded_where_the_device_says_so() {
    let case = &cases::dots()[0];
    let uses = |limits: &Limits| {
        let plan = plan(&case.graph, limits, PlanOptions::default(), &UpperBound(limits)).expect("a plan");
        has(&plan, DOTS[0])
    };
    let asked = device(STORAGES[0], DOTS[0], "").engine().limits().clone();
    assert!(uses(&asked));
    assert!(!uses(&Limits { byte_dots: ByteDots::None, ..asked.clone() }));
    let across = Products { dots: None, ..asked.products };
    let unasked = |byte_dots| Limits { byte_dots, products: across, ..asked.clone() };
    assert!(!uses(&unasked(ByteDots::Emulated)));
    assert!(uses(&unasked(ByteDots::Accelerated)));
}

/// Epilogues, second products and rotations, in what each schedule does by itself.
#[test]
fn fused_in_every_schedule() {
    let [buffers, images] = STORAGES;
    let of_products = |case: &FusedCase| matches!(case.fused.op, Op::MulMat | Op::OutProd);
    let all: Vec<FusedCase> = cases::fused().into_iter().filter(of_products).collect();
    for (schedule, storage, names) in [
        (STAGED, buffers, ["OUT_PROD k 7 m 17 n 33, bias", "in parts, with an adapter and nothing else"]),
        (LONG, images, ["Normal, 3 heads of 16, 17 tokens, rotated", "Q4_1, gradient with an adapter"]),
        // The tile that has two quads of a head with each invocation.
        (WIDE, buffers, ["Neox, 2 heads of 64, 9 tokens, adapter", "mixed values, gated by a window"]),
        (ACROSS, buffers, ["Neox, 2 heads of 64, 9 tokens, adapter", "gradient of a gated unit"]),
        (DOTS[0], buffers, ["Neox, Q8_0, four columns, rotated", "Q4_K, one column, bias"]),
        (DOTS[0], buffers, ["Q4_K, four columns, rotated", "Q8_0, three columns, residual"]),
        (DOTS[0], images, ["Normal, Q8_0, four columns, rotated", "Q4_K, one column, bias"]),
        (ACROSS, images, ["k 33 m 5 n 1, beside it OUT_PROD k 8, Integers", "MUL_MAT in parts"]),
    ] {
        let device = device(storage, schedule, "");
        for name in names {
            let mut named = all.iter().filter(|case| case.name.contains(name));
            let case = named.next().unwrap_or_else(|| panic!("no case {name}"));
            let plan = case.plan(device.engine().limits(), device.options()).expect("a plan");
            assert!(has(&plan, schedule), "{schedule} is not that of {name}");
            case.check(&device).unwrap_or_else(|failure| panic!("{schedule} {storage:?} {failure}"));
        }
        device.assert_valid();
    }
}

/// Tiles for few columns: that of shapes, several values of n in turned order, workgroups along m and n, one that no four sums share.
const NORMED: [&str; 3] = [
    ACROSS,
    r#"{"schedule": "across", "across": {"quads_m": 1, "columns": 4, "lanes_m": 2, "lanes_n": 2, "lanes_k": 8}}"#,
    r#"{"schedule": "across", "across": {"quads_m": 2, "columns": 8, "lanes_m": 4, "lanes_n": 1, "lanes_k": 16}}"#,
];

/// Products with the norm of their right factor, and twins.
#[test]
fn normed() {
    let cases = cases::normed();
    for (at, schedule) in NORMED.into_iter().enumerate() {
        for (storage, first) in STORAGES.into_iter().zip([0, 1]) {
            let device = device(storage, schedule, "");
            // The first tile has all cases, each in one storage.
            let step = if at == 0 { 2 } else { 6 };
            for case in cases.iter().skip(first).step_by(step) {
                let plan = case.plan(device.engine().limits(), device.options());
                let plan = plan.unwrap_or_else(|why| panic!("{schedule} {}: {why}", case.name));
                assert!(has(&plan, ACROSS), "{schedule} is not that of {}", case.name);
                case.check(&device).unwrap_or_else(|failure| panic!("{schedule} {storage:?} {failure}"));
            }
            device.assert_valid();
        }
    }
}

/// The same with right factors that are rounded to bytes, after the norm.
#[test]
fn normed_as_bytes() {
    for (schedule, step) in DOTS.into_iter().zip([4, 16]) {
        let mut run = 0;
        for (storage, first) in STORAGES.into_iter().zip([0, 1]) {
            let device = device(storage, schedule, "");
            let plan = |case: &FusedCase| case.plan(device.engine().limits(), device.options());
            let mut cases = cases::normed();
            cases.retain(|case| plan(case).is_ok_and(|plan| has(&plan, schedule)));
            for case in cases.iter().skip(first).step_by(step) {
                case.check(&device).unwrap_or_else(|failure| panic!("{schedule} {storage:?} {failure}"));
                run += 1;
            }
            device.assert_valid();
        }
        assert!(run >= 20 / step, "{schedule}: {run} cases");
    }
}

/// The planner of a GPU makes the same of the single ops: one dispatch, but where more than one node takes what a twin gives.
#[test]
fn norms_are_part_of_products() {
    let mut cases = cases::normed();
    cases.retain(|case| !case.name.contains("twins, bias"));
    for (storage, first) in STORAGES.into_iter().zip([0, 2]) {
        let device = device(storage, "{}", r#", "subgroup_size": 32"#);
        let limits = device.engine().limits();
        for case in cases.iter().skip(first).step_by(5) {
            let plan = plan(&case.graph, limits, device.options(), &UpperBound(limits)).expect("a plan");
            let [step] = &plan.steps[..] else { panic!("{storage:?} {}: {:?}", case.name, plan.steps) };
            assert!(
                ["gemm_normed", "gemm_twin", "gemm_dots_normed", "gemm_dots_twin"]
                    .iter()
                    .any(|name| step.shader.starts_with(name)),
                "{}",
                case.name
            );
            case.check_planned(&device).unwrap_or_else(|failure| panic!("{storage:?} {failure}"));
        }
        device.assert_valid();
    }
}

/// A dispatch that leaves out the gain or the norm, adds something else to the mean of squares, or takes the factors of twins in the other
/// order is found out.
#[test]
fn spoiled_norms_fail() {
    let device = device(STORAGES[0], ACROSS, "");
    let cases = cases::normed();
    let named = |name: &str| cases.iter().find(|case| case.name.contains(name)).expect("a case").clone();
    let gain = named("F32, k 36 m 17 n 1, gain");
    gain.check(&device).expect("it is right as it is");
    let norm = gain.fused.norm.expect("a norm");
    let fails =
        |case: FusedCase| assert!(case.check(&device).is_err(), "{} passes though its dispatch differs", case.name);
    let mut other = gain.clone();
    other.fused.norm = Some(Norm { eps: 0.01, ..norm });
    fails(other);
    let mut other = gain.clone();
    (other.fused.norm, other.inputs) = (Some(Norm { gain: false, ..norm }), gain.inputs[..2].to_vec());
    fails(other);
    let mut other = gain.clone();
    (other.fused.norm, other.inputs) = (None, gain.inputs[..2].to_vec());
    fails(other);
    let mut other = named("F32, k 36 m 17 n 1, twins");
    other.inputs.swap(0, 2);
    fails(other);
}

/// Matrices of sums: the tile that shapes choose, one of a single subgroup and buffer, one that is wide along n, of two buffers, and one of
/// threes. Factors of F32 are in parts.
const MATRICES: [&str; 4] = [
    r#"{"schedule": "matrix"}"#,
    r#"{"schedule": "matrix", "matrices":
        {"tile_m": 1, "tile_n": 1, "lanes_m": 1, "lanes_n": 1, "quads_k": 4, "buffers": 1}}"#,
    r#"{"schedule": "matrix", "matrices":
        {"tile_m": 2, "tile_n": 4, "lanes_m": 1, "lanes_n": 2, "quads_k": 8}}"#,
    r#"{"schedule": "matrix", "matrices":
        {"tile_m": 3, "tile_n": 4, "lanes_m": 3, "lanes_n": 4, "quads_k": 8, "buffers": 1}}"#,
];

#[test]
#[ignore = "needs a device with matrix units"]
fn matrix_units() {
    for (first, schedule) in MATRICES.into_iter().enumerate() {
        assert_products(first, MATRICES.len(), schedule, "");
    }
}

/// Right factors that are in 16 bits already, or are copied to them as weights in blocks are.
#[test]
#[ignore = "needs a device with matrix units"]
fn factors_in_16_bits() {
    let (copied, given): (Vec<Case>, Vec<Case>) =
        cases::narrow().into_iter().partition(|case| case.name.contains("copied"));
    for (schedule, storage) in MATRICES.into_iter().zip(STORAGES.into_iter().cycle()) {
        assert_cases(storage, &given, schedule, "");
    }
    let device = device(STORAGES[0], MATRICES[0], "");
    for case in &copied {
        let limits = device.engine().limits();
        let plan = plan(&case.graph, limits, device.options(), &UpperBound(limits)).expect("a plan");
        let copies = plan.steps.iter().filter(|step| step.shader.starts_with("copy")).count();
        assert_eq!(copies, 1, "{}", case.name);
    }
    let fails: Vec<String> = check_all(&device, &copied).iter().map(ToString::to_string).collect();
    assert!(fails.is_empty(), "{} cases fail\n{}", fails.len(), fails.join("\n"));
    device.assert_valid();
}

/// Every way that factors of F32 are read, and what their exponents may be.
#[test]
#[ignore = "needs a device with matrix units"]
fn factors_of_f32_in_parts() {
    let tells = |case: &Case| {
        ["range of F32", "k 33 m 17 n 9,", "shared heads"].iter().any(|part| case.name.contains(part))
            && case.dtypes()[0] == DType::F32
    };
    let cases: Vec<Case> = products().into_iter().filter(tells).collect();
    let limits = device(STORAGES[0], MATRICES[0], "").engine().limits().clone();
    for case in &cases {
        let plan = plan(&case.graph, &limits, PlanOptions::default(), &UpperBound(&limits)).expect("a plan");
        assert!(plan.steps.iter().any(|step| step.shader == "gemm_matrix_parted"), "{}", case.name);
    }
    for (first, (schedule, storage)) in MATRICES.into_iter().zip(STORAGES.into_iter().cycle()).enumerate() {
        let cases: Vec<Case> = cases.iter().skip(first).step_by(MATRICES.len()).cloned().collect();
        assert_cases(storage, &cases, schedule, "");
    }
}

/// Epilogues and both kinds of rotation of such products.
#[test]
#[ignore = "needs a device with matrix units"]
fn fused_factors_of_f32_in_parts() {
    let device = device(STORAGES[0], MATRICES[0], "");
    for (name, shader) in [
        ("OUT_PROD k 7 m 17 n 33, bias", "gemm_matrix_parted_fused"),
        ("Normal, 3 heads of 16, 17 tokens, rotated", "gemm_matrix_parted_rotated"),
        ("Neox, 2 heads of 64, 9 tokens, bias stored, rotated back", "gemm_matrix_parted_rotated"),
    ] {
        let mut named = cases::fused().into_iter().filter(|case| case.name.contains(name));
        let case = named.next().unwrap_or_else(|| panic!("no case {name}"));
        let plan = case.plan(device.engine().limits(), device.options()).expect("a plan");
        assert!(plan.steps.iter().any(|step| step.shader == shader), "{name}");
        case.check(&device).unwrap_or_else(|failure| panic!("{failure}"));
    }
    device.assert_valid();
}

#[test]
#[ignore = "needs a device with matrix units"]
fn sums_beyond_the_range_of_f16_by_matrix_units() {
    // One op by each: a processor takes long to compile these.
    let cases = beyond_halves();
    for ((schedule, storage), case) in MATRICES.into_iter().zip(STORAGES.into_iter().cycle()).zip(cases.iter().cycle())
    {
        assert_cases(storage, std::slice::from_ref(case), schedule, "");
    }
}

#[test]
#[ignore = "needs a device with matrix units"]
fn blocks_by_matrix_units() {
    for (dtype, storage) in [DType::Q4_0, DType::Q6_K].into_iter().zip(STORAGES) {
        let tells = |case: &Case| {
            let product = matches!(case.node().op, Op::MulMat | Op::OutProd);
            product && case.dtypes()[0] == dtype && case.name.contains("along")
        };
        let cases: Vec<Case> = cases::stored().into_iter().filter(tells).collect();
        assert_cases(storage, &cases, MATRICES[0], "");
    }
}

#[test]
#[ignore = "needs a device with matrix units"]
fn fused_by_matrix_units() {
    for (schedule, storage) in MATRICES.into_iter().zip(STORAGES.into_iter().cycle()) {
        let device = device(storage, schedule, "");
        let of_products = |op: &Op| matches!(op, Op::MulMat | Op::OutProd);
        let cases = cases::fused().into_iter().filter(|case| of_products(&case.fused.op)).step_by(5);
        let fails: Vec<String> = cases.filter_map(|case| Some(case.check(&device).err()?.to_string())).collect();
        assert!(fails.is_empty(), "{schedule} {storage:?}: {} cases fail\n{}", fails.len(), fails.join("\n"));
        device.assert_valid();
    }
}
