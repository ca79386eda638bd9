//! What is kept of the times of steps, on the Vulkan device present.

use fblayout::roofline::{Measured, Phase};

use crate::abi::*;
use crate::backend;
use crate::device::Device;
use crate::engine::Engine;
use crate::engine_link::Link;
use crate::registry::Registry;
use crate::testing::plugin::Plugin;
use crate::testing::{World, host};

const F32: i32 = 0;
const ADD: i32 = 2;

#[test]
fn what_steps_took_is_kept_when_a_stream_is_freed() {
    let folder = tempfile::tempdir().expect("a folder");
    let adapter = Link::adapters().expect("a driver").swap_remove(0).measuring(&folder.path().join("steps.json"));
    let device = Device::<Link>::register(std::ptr::null_mut(), 0, adapter, host());
    let backend = backend::open(device).expect("open");
    let plugin = Plugin { world: World, registry: Registry::new(host(), "0"), device, backend };
    let (w, buffer) = (&plugin.world, plugin.buffer(1024, USAGE_COMPUTE));
    let x = buffer.place(w.tensor(F32, [8, 5, 1, 1]), 0);
    let twice = buffer.place(w.node(ADD, &[], F32, [8, 5, 1, 1], &[x, x]), 512);
    // The file was written after graph 2 and is not due after graph 3.
    for _ in 0..3 {
        buffer.set_floats(x, &[1.5; 40]);
        assert_eq!(plugin.compute(&[twice], 7), STATUS_SUCCESS);
    }
    assert_eq!(buffer.floats(twice, 40), [3.0; 40]);
    let file = plugin.engine().engine().measured_file().expect("it measures").to_owned();
    drop(plugin);
    let measured = Measured::read(&file).expect("the file is whole");
    assert_eq!((measured.first.device.count, measured.again.device.count), (1, 2));
    let [step] = &measured.steps[..] else { panic!("{:?}", measured.steps) };
    assert_eq!((step.kind.op.as_str(), step.kind.flops, step.first.count, step.again.count), ("ADD", 40, 1, 2));
    let phases = |cpu: &std::collections::BTreeMap<Phase, _>| cpu.keys().copied().collect::<Vec<_>>();
    use Phase::{Bind, Plan, Record, Submit, Translate, Wait};
    assert_eq!(phases(&measured.first.cpu), [Translate, Bind, Plan, Record, Submit, Wait]);
    assert_eq!(phases(&measured.again.cpu), [Translate, Bind, Submit, Wait]);
    buffer.free();
    assert_eq!(device.engine().expect("open").validation_messages(), [""; 0]);
}
