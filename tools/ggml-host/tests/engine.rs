//! The wrapper against the engine's own CPU backend.

use std::process::Command;

use ggml_host::gguf::{Reader, Writer};
use ggml_host::rpc::{Server, connect};
use ggml_host::{
    Backend, Context, Device, Error, Graph, Plan, Type, Usage, capture_errors, dequantize, find_device, forward_logs,
    load_installed_backends, load_plugin, quantize,
};

fn cpu() -> Device {
    forward_logs();
    load_installed_backends().unwrap();
    find_device("cpu").expect("the engine brings a CPU backend")
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect()
}

#[test]
fn bytes_go_in_and_out_at_any_offset() {
    let context = Context::new(4, 0);
    let t = context.tensor(Type::Q8_0, &[64, 3]);
    let view = context.view(t, [32, 2, 1, 1], [68, 136, 136], 68);
    assert!(matches!(t.get_bytes(0, &mut [0]), Err(Error::Range { size: 0, .. })), "no memory yet");
    context.allocate(cpu(), Usage::Any, "a test tensor").unwrap();
    context.clear(0);

    let mut expected = vec![0u8; t.bytes()];
    for (offset, len) in [(0, 1), (33, 40), (t.bytes() - 3, 3)] {
        let data: Vec<u8> = (0..len).map(|i| (offset + i) as u8 | 1).collect();
        t.set_bytes(offset, &data).unwrap();
        expected[offset..offset + len].copy_from_slice(&data);
    }
    t.fill_bytes(7, 100, 5).unwrap();
    expected[100..105].fill(7);
    view.set_bytes(1, &[9, 8]).unwrap();
    expected[69..71].copy_from_slice(&[9, 8]);

    let mut whole = vec![0u8; t.bytes()];
    t.get_bytes(0, &mut whole).unwrap();
    assert_eq!(whole, expected);
    let mut part = [0u8; 4];
    view.get_bytes(0, &mut part).unwrap();
    assert_eq!(part[..], expected[68..72]);
    assert!(t.set_bytes(t.bytes() - 1, &[0, 0]).is_err());
    assert!(t.get_bytes(usize::MAX, &mut [0, 0]).is_err());
    assert!(t.set_f32(&[0.0; 192]).is_err(), "a quantized tensor takes no floats");
}

#[test]
fn a_product_is_right_whole_and_node_by_node() {
    let (k, n, m) = (8, 3, 5);
    let context = Context::new(8, 16);
    let w = context.tensor(Type::F32, &[k, n]);
    let x = context.tensor(Type::F32, &[k, m]);
    let y = context.scale(context.mul_mat(w, x), 2.0);
    let mut graph = Graph::new(&context, 16);
    graph.expand(y);
    let backend = Backend::open(cpu()).unwrap();
    assert!(matches!(backend.compute(&graph), Err(Error::Graph(_))), "nothing has memory yet");
    context.allocate(cpu(), Usage::Any, "a test graph").unwrap();
    let (wv, xv) = (ramp(k * n), ramp(k * m));
    w.set_f32(&wv).unwrap();
    x.set_f32(&xv).unwrap();

    let dot = |i: usize, j: usize| (0..k).map(|l| f64::from(wv[i * k + l]) * f64::from(xv[j * k + l])).sum::<f64>();
    let check = || {
        for (at, &got) in y.get_f32().unwrap().iter().enumerate() {
            let want = 2.0 * dot(at % n, at / n);
            // k products of values below 2 in magnitude, each rounded: k * 4 * 2 * eps bounds the error.
            assert!((f64::from(got) - want).abs() <= (k * 8) as f64 * f64::from(f32::EPSILON), "{got} {want}");
        }
    };
    backend.compute(&graph).unwrap();
    check();
    y.set_f32(&vec![f32::NAN; n * m]).unwrap();
    let mut seen = Vec::new();
    backend
        .compute_nodes(&graph, |node| {
            seen.push(node.op());
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, ["MUL_MAT", "SCALE"]);
    check();
}

#[test]
fn a_plan_runs_forward_and_backward() {
    // loss = mean cross-entropy of softmax(w) against a label; its gradient is softmax(w) - label.
    let state = Context::new(4, 0);
    let w = state.tensor(Type::F32, &[4, 1]).mark_param();
    let label = state.tensor(Type::F32, &[4, 1]);
    let seed = state.tensor(Type::F32, &[1]);
    state.allocate(cpu(), Usage::Any, "a test state").unwrap();
    w.set_f32(&[0.5, -1.0, 2.0, 0.0]).unwrap();
    label.set_f32(&[0.0, 1.0, 0.0, 0.0]).unwrap();
    seed.set_f32(&[1.0]).unwrap();

    let context = Context::new(64, 64);
    let mut graph = Graph::new(&context, 64);
    let loss = context.cross_entropy_loss(context.scale(w, 1.0), label).mark_loss().mark_output();
    graph.expand(loss);
    graph.backward(loss, seed).unwrap();
    let gradient = graph.gradient(w).expect("a parameter has a gradient").mark_output();
    graph.expand(gradient);
    let backend = Backend::open(cpu()).unwrap();
    let mut plan = Plan::new(std::slice::from_ref(&backend), graph).unwrap();
    assert_eq!((plan.splits(), plan.nodes_elsewhere(&backend).len()), (1, 0));

    let e: Vec<f64> = [0.5f64, -1.0, 2.0, 0.0].iter().map(|v| v.exp()).collect();
    let sum: f64 = e.iter().sum();
    for _ in 0..2 {
        plan.compute().unwrap();
        assert!((f64::from(loss.get_f32().unwrap()[0]) + (e[1] / sum).ln()).abs() < 1e-6);
        for (i, g) in gradient.get_f32().unwrap().iter().enumerate() {
            let want = e[i] / sum - if i == 1 { 1.0 } else { 0.0 };
            assert!((f64::from(*g) - want).abs() < 1e-6, "gradient {i}: {g} {want}");
        }
    }
}

#[test]
fn a_plan_gives_no_memory_to_tensors_of_another_context() {
    let state = Context::new(1, 0);
    let w = state.tensor(Type::F32, &[4]);
    let context = Context::new(8, 8);
    let mut graph = Graph::new(&context, 8);
    graph.expand(context.scale(w, 2.0));
    let message = Plan::new(&[Backend::open(cpu()).unwrap()], graph).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("another context"), "{message}");
}

#[test]
fn types_convert_within_their_step() {
    let values = ramp(256);
    // Values reach 2 in magnitude. A block's step: q8_0 has 2 * 2 / 254, q4_1 at most 4 / 15; half of it is the error, and
    // the scales are rounded to 11 bits.
    for (dtype, bound) in [(Type::F32, 0.0), (Type::F16, 2.0 / 2048.0), (Type::Q8_0, 0.011), (Type::Q4_1, 0.14)] {
        let bytes = quantize(dtype, 64, &values).unwrap();
        assert_eq!(bytes.len(), 4 * dtype.row_bytes(64));
        let back = dequantize(dtype, &bytes).unwrap();
        let worst = values.iter().zip(&back).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= bound, "{dtype}: {worst}");
    }
    assert!(quantize(Type::Q8_0, 48, &values[..48]).is_err(), "48 values are not whole blocks");
    assert!(quantize(Type::I32, 1, &values[..1]).is_err());
    assert!(dequantize(Type::Q8_0, &[0; 33]).is_err());
    assert_eq!(Type::by_name("q4_1"), Some(Type::Q4_1));
}

#[test]
fn gguf_files_round_trip_and_damage_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    let mut writer = Writer::new(2);
    writer.set_text("general.architecture", "test").unwrap();
    writer.set_u32("test.n", 5).unwrap();
    writer.set_f32("test.x", 0.25).unwrap();
    writer.set_texts("test.words", &["a", "b"]).unwrap();
    let bytes = quantize(Type::Q8_0, 32, &ramp(64)).unwrap();
    writer.add("w", Type::Q8_0, &[32, 2], bytes.clone()).unwrap();
    assert!(writer.add("w", Type::F32, &[1], vec![0; 4]).is_err(), "names are unique");
    assert!(writer.add("v", Type::F32, &[2], vec![0; 4]).is_err(), "sizes must agree");
    writer.add("b", Type::I32, &[3], vec![1; 12]).unwrap();
    assert!(writer.add("c", Type::I32, &[1], vec![1; 4]).is_err(), "there was room for two");
    let mut file = Vec::new();
    writer.write(&mut file).unwrap();
    std::fs::write(&path, &file).unwrap();

    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.text("general.architecture").as_deref(), Some("test"));
    assert_eq!((reader.uint("test.n"), reader.uint("test.x"), reader.uint("none")), (Some(5), None, None));
    assert_eq!((reader.float("test.x"), reader.list_len("test.words")), (Some(0.25), Some(2)));
    let info = reader.tensor("w").unwrap();
    assert_eq!((info.dtype, info.extents), (Type::Q8_0, [32, 2, 1, 1]));
    assert_eq!(reader.read(info).unwrap(), bytes);

    forward_logs();
    // The last tensor has 12 bytes and 20 of padding, which a file can do without.
    std::fs::write(&path, &file[..file.len() - 20]).unwrap();
    assert!(Reader::open(&path).is_ok());
    for keep in [0, 3, 10, 60, file.len() / 2, file.len() - 64, file.len() - 21] {
        std::fs::write(&path, &file[..keep]).unwrap();
        let message = Reader::open(&path).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("a.gguf") && !message.contains('\n'), "{keep} bytes: {message}");
    }
}

#[test]
fn a_plugin_that_is_none_is_an_error() {
    forward_logs();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libnothing.so");
    assert!(load_plugin(&path).unwrap_err().to_string().contains("no such file"));
    std::fs::write(&path, [b'x'; 4096]).unwrap();
    let message = load_plugin(&path).unwrap_err().to_string();
    assert!(message.contains("libnothing.so") && message.contains("invalid ELF header"), "{message}");
    assert_eq!(capture_errors(|| 3), (3, String::new()));
}

#[test]
fn a_server_that_is_none_is_an_error() {
    forward_logs();
    let message = connect("127.0.0.1:1").unwrap_err().to_string();
    assert!(message.starts_with("RPC at '127.0.0.1:1': "), "{message}");
    let ended = Server::start(|address| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo nothing at $0 >&2", address]);
        command
    });
    let message = ended.map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("does not answer: nothing at 127.0.0.1:"), "{message}");
}
