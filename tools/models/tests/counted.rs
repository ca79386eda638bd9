//! Whole training steps, counted on the device access by access, against what is predicted of their plans.
//!
//! Ignored unless asked for: the modules that count are compiled by `./x counted`, which runs this and shows the table.

mod common;

use common::bounds::eval_with_bounds;
use common::{externals, options, train_contents};
use fblayout::device::Preset;
use fblayout::graph::{Array, DType, Desc, ValueId, decode, encode};
use fblayout::plan::{PlanOptions, Policy, StorageChoice, TEXEL_BYTES, predict};
use fblayout_models::{Config, MODELS, Training, train_graph};
use fblayout_spirv_tests::{Count, CountedDevice};

/// At this size the caches hold everything: a plan's bytes are each operand's different texels, dispatch by dispatch.
fn assert_policies(device: &CountedDevice, config: &Config, training: Training) {
    let profile = Preset::find("lavapipe").and_then(|preset| preset.profile.as_ref()).expect("a machine");
    let options = options(training);
    let train = train_graph(config, &options).expect("a training step");
    let (graph, loss) = (&train.model.graph, train.model.loss);
    let mut before = train_contents(config, &options, &train);
    // The logits are read again where a label is not zero; the prediction takes one label a row.
    let labels = train.model.inputs.labels;
    let one_hot = |[i, row, ..]: [u32; 4]| f64::from(i == row * 5 % config.vocab);
    before.insert(labels, Array::from_fn(graph.values[labels.index()].shape, one_hot));
    let bytes = |id: ValueId| {
        let numbers: Vec<f32> = before[&id].data.iter().map(|&x| x as f32).collect();
        encode(graph.values[id.index()].dtype, &numbers).expect("whole blocks")
    };
    let data: Vec<_> = externals(graph).map(|id| (id, bytes(id))).collect();
    // What quantization makes of the weights.
    for (id, bytes) in &data {
        let Desc { dtype, shape } = graph.values[id.index()].desc();
        before.insert(*id, Array { shape, data: decode(dtype, bytes).expect("whole blocks") });
    }
    // No module that counts has matrix units.
    let (after, bounds) = eval_with_bounds(graph, &before, None);

    for (name, policy) in Policy::ALL {
        let what = format!("{} {training:?} {name}", config.name);
        // Images compile faster; single ops are counted in buffers as well.
        let options = PlanOptions { storage: StorageChoice::Image, policy, ..PlanOptions::default() };
        let plan = device.plan(graph, options).unwrap_or_else(|e| panic!("{what}: {e}"));
        let predicted = predict(&plan, graph, profile);
        let run = device.run(plan, &data, &[loss]).unwrap_or_else(|e| panic!("{what}: {e}"));
        let got = decode(DType::F32, &run.outcome.bytes[0]).expect("a float")[0];
        let (want, bound) = (after[&loss].data[0], bounds[&loss].data[0]);
        assert!((got - want).abs() <= bound, "{what}: the loss is {got:e}, not {want:e} +- {bound:e}");

        let counts: Vec<Count> = run.operands.iter().map(|operand| operand.count).collect();
        let requests: u64 = counts.iter().map(|c| c.loads + c.stores).sum();
        let moved: u64 = counts.iter().map(Count::moved_bytes).sum();
        let method = match training {
            Training::Full => "full".to_owned(),
            Training::Lora { base, .. } => format!("LoRA on {base:?}"),
        };
        println!(
            "| {}, {method} | {name} | {} | {} / {requests} | {} / {moved} |",
            config.name,
            run.plan.steps.len(),
            predicted.requests,
            predicted.bytes_moved
        );
        let differences = run.differences();
        assert!(differences.is_empty(), "{what}\n{}", differences.join("\n"));
        // Rows of a quantized table may share their scales, by what their ids are.
        let shared: u64 = run.operands.iter().map(|o| o.predicted.bytes - o.count.touched * TEXEL_BYTES).sum();
        assert_eq!((requests, moved + shared), (predicted.requests, predicted.bytes_moved), "{what}");
    }
    assert_eq!(device.gpu().validation_messages(), Vec::<String>::new());
}

/// The model with the most kinds of ops, trained whole, and one whose rotation has factors, its weights quantized.
#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn every_policy_moves_what_is_predicted() {
    let device = CountedDevice::open(None).expect("a device and modules");
    println!("| model | policy | dispatches | requests predicted / counted | bytes predicted / counted |");
    println!("|---|---|---|---|---|");
    assert_policies(&device, &MODELS[3].tiny(), Training::Full);
    let whole_blocks = Config { width: 32, ffn: 64, ..MODELS[0].tiny() };
    assert_policies(&device, &whole_blocks, Training::Lora { rank: 3, alpha: 6.0, base: DType::Q8_0 });
}
