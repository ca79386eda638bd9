use std::cell::{Cell, RefCell};
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

/// A device whose tensors are byte arrays; fresh storage is poisoned. Counts its transfers, and fails on demand.
#[derive(Default)]
struct MockHome {
    writes: Cell<usize>,
    reads: Cell<usize>,
    fail: Cell<bool>,
}

#[derive(Clone, Debug)]
struct MockTensor(Rc<RefCell<Vec<u8>>>);

impl MockHome {
    fn check(&self) -> Result<(), String> {
        if self.fail.get() { Err("lost".into()) } else { Ok(()) }
    }
}

impl Home for MockHome {
    type Tensor = MockTensor;

    fn create(&self, dtype: DType, shape: Shape) -> Result<MockTensor, String> {
        self.check()?;
        let blocks = fblayout::graph::elements(&shape) as usize / dtype.block() as usize;
        Ok(MockTensor(Rc::new(RefCell::new(vec![0xA5; blocks * dtype.block_bytes() as usize]))))
    }

    fn write(&self, tensor: &MockTensor, bytes: &[u8]) -> Result<(), String> {
        self.check()?;
        self.writes.set(self.writes.get() + 1);
        tensor.0.borrow_mut().copy_from_slice(bytes);
        Ok(())
    }

    fn zero(&self, tensor: &MockTensor, len: usize) -> Result<(), String> {
        self.check()?;
        assert_eq!(tensor.0.borrow().len(), len);
        tensor.0.borrow_mut().fill(0);
        Ok(())
    }

    fn read(&self, tensor: &MockTensor) -> Result<Vec<u8>, String> {
        self.check()?;
        self.reads.set(self.reads.get() + 1);
        Ok(tensor.0.borrow().clone())
    }

    fn read_part(&self, tensor: &MockTensor, from: usize, out: &mut [u8]) -> Result<(), String> {
        self.check()?;
        self.reads.set(self.reads.get() + 1);
        out.copy_from_slice(&tensor.0.borrow()[from..from + out.len()]);
        Ok(())
    }
}

const PERSISTENT: Lifetime = Lifetime::Persistent;
const EPOCH: Lifetime = Lifetime::Epoch;

/// A contiguous root of rows of `row` elements.
fn root(offset: usize, type_id: i32, row: i64, rows: i64) -> Root {
    let (block, bytes) = match type_id {
        0 | 26 => (1, 4),
        1 | 30 => (1, 2),
        3 => (32, 20),
        8 => (32, 34),
        27 | 28 => (1, 8),
        12 => (256, 144),
        16 => (256, 66),
        other => panic!("no test type {other}"),
    };
    let row_bytes = row as usize / block * bytes;
    let nbytes = row_bytes * rows as usize;
    Root {
        offset,
        geometry: Geometry { type_id, ne: [row, rows, 1, 1], nb: [bytes, row_bytes, nbytes, nbytes], nbytes },
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| seed.wrapping_add(i as u8)).collect()
}

fn read(memory: &mut Memory<MockHome>, home: &MockHome, start: usize, len: usize) -> Vec<u8> {
    let mut out = vec![0xEE; len];
    memory.read(home, start, &mut out).expect("in range");
    out
}

#[test]
fn unwritten_bytes_read_as_the_clear_value() {
    let (home, mut memory) = (MockHome::default(), Memory::new(100));
    assert_eq!(read(&mut memory, &home, 3, 50), vec![0; 50]);
    memory.clear(7);
    assert_eq!(read(&mut memory, &home, 99, 1), vec![7]);
}

/// Hosts hand over inputs that their graphs do not use, in every epoch anew.
#[test]
fn what_no_graph_reads_stays_on_the_host() {
    let (home, mut memory) = (MockHome::default(), Memory::new(1 << 20));
    let (used, spare) = (root(256, 0, 64, 4), root(4096, 0, 64, 4));
    let bytes = pattern(1024, 9);
    let mut writes = Vec::new();
    for _ in 0..3 {
        for input in [&used, &spare] {
            memory.write(&home, input, EPOCH, input.offset, &bytes).expect("in range");
        }
        memory.device_input(&home, &used, EPOCH).expect("has a home");
        writes.push(home.writes.replace(0));
        memory.reset();
    }
    assert_eq!(writes, [2, 1, 1]);
    // Without a reset in between as well; what is read once more is right, and goes to the device from then on.
    memory.write(&home, &spare, EPOCH, 4096, &bytes).expect("in range");
    assert_eq!((home.writes.get(), read(&mut memory, &home, 4096, 1024)), (0, bytes.clone()));
    let tensor = memory.device_input(&home, &spare, EPOCH).expect("has a home");
    assert_eq!((home.writes.replace(0), &*tensor.0.borrow()), (1, &bytes));
    memory.write(&home, &spare, EPOCH, 4096, &bytes).expect("in range");
    assert_eq!(home.writes.replace(0), 1);
    memory.write(&home, &spare, EPOCH, 4096, &bytes).expect("in range");
    assert_eq!(home.writes.get(), 0, "written again, and not read");
}

#[test]
fn chunks_make_one_upload_and_the_host_copy_of_a_large_root_is_dropped() {
    let (home, mut memory) = (MockHome::default(), Memory::new(1 << 20));
    let weights = root(256, 8, 4096, 64);
    let n = weights.geometry.nbytes;
    let bytes = pattern(n, 3);
    for start in (0..n).step_by(1000) {
        let end = n.min(start + 1000);
        memory.write(&home, &weights, PERSISTENT, 256 + start, &bytes[start..end]).expect("in range");
    }
    assert_eq!(home.writes.get(), 0);
    for _ in 0..2 {
        memory.device_input(&home, &weights, PERSISTENT).expect("has a home");
    }
    assert_eq!(home.writes.get(), 1);
    assert!(matches!(memory.records[&256].host, Host::Absent));
    assert_eq!(read(&mut memory, &home, 256 + 17, 1000), bytes[17..1017]);
    assert_eq!(home.reads.get(), 1);
}

#[test]
fn a_large_root_written_whole_has_no_host_copy() {
    let (home, mut memory) = (MockHome::default(), Memory::new(1 << 12));
    let weights = root(0, 3, 64, 50);
    let bytes = pattern(weights.geometry.nbytes, 1);
    memory.write(&home, &weights, PERSISTENT, 0, &bytes).expect("in range");
    assert!(matches!(memory.records[&0].host, Host::Absent));
    assert_eq!(*memory.device_input(&home, &weights, PERSISTENT).expect("has a home").0.borrow(), bytes);
    assert_eq!(home.writes.get(), 1);
    home.fail.set(true);
    memory.write(&home, &weights, PERSISTENT, 0, &pattern(bytes.len(), 9)).expect("the host takes it");
    assert_eq!(read(&mut memory, &home, 5, 100), pattern(bytes.len(), 9)[5..105]);
}

#[test]
fn a_whole_fill_needs_no_read_back() {
    let (home, mut memory) = (MockHome::default(), Memory::new(1 << 20));
    let gradient = root(0, 0, 1 << 12, 16);
    memory.device_input(&home, &gradient, PERSISTENT).expect("has a home");
    memory.mark_device_written(&gradient);
    memory.fill(&home, &gradient, PERSISTENT, 0, gradient.geometry.nbytes, 0).expect("in range");
    assert_eq!(home.reads.get(), 0);
    let tensor = memory.device_input(&home, &gradient, PERSISTENT).expect("has a home");
    assert!(tensor.0.borrow().iter().all(|&byte| byte == 0));
    assert_eq!(home.writes.get(), 0, "zeros do not travel");
    memory.fill(&home, &gradient, PERSISTENT, 0, gradient.geometry.nbytes, 7).expect("in range");
    let tensor = memory.device_input(&home, &gradient, PERSISTENT).expect("has a home");
    assert!(tensor.0.borrow().iter().all(|&byte| byte == 7));
    assert_eq!(home.writes.get(), 1);
}

#[test]
fn a_root_over_others_takes_their_bytes_and_leaves_the_rest() {
    let (home, mut memory) = (MockHome::default(), Memory::new(256));
    let (a, b) = (root(0, 0, 8, 2), root(64, 1, 16, 2));
    memory.write(&home, &a, PERSISTENT, 0, &pattern(64, 1)).expect("in range");
    memory.write(&home, &b, PERSISTENT, 64, &pattern(64, 100)).expect("in range");
    memory.device_input(&home, &b, PERSISTENT).expect("has a home");
    memory.mark_device_written(&b);
    let over = root(32, 26, 16, 1);
    let tensor = memory.device_input(&home, &over, PERSISTENT).expect("has a home");
    assert_eq!(*tensor.0.borrow(), [&pattern(64, 1)[32..], &pattern(64, 100)[..32]].concat());
    assert_eq!(read(&mut memory, &home, 0, 128), [pattern(64, 1), pattern(64, 100)].concat());
}

#[test]
fn a_root_that_comes_back_finds_its_storage() {
    let (home, mut memory) = (MockHome::default(), Memory::new(256));
    let (input, result) = (root(0, 0, 16, 1), root(0, 0, 1, 1));
    memory.write(&home, &input, EPOCH, 0, &pattern(64, 1)).expect("in range");
    let first = memory.device_input(&home, &input, EPOCH).expect("has a home");
    memory.device_output(&home, &result, EPOCH).expect("has a home");
    memory.mark_device_written(&result);
    memory.write(&home, &input, EPOCH, 0, &pattern(64, 9)).expect("in range");
    let same_epoch = memory.device_input(&home, &input, EPOCH).expect("has a home");
    assert!(Rc::ptr_eq(&first.0, &same_epoch.0));
    assert_eq!(*same_epoch.0.borrow(), pattern(64, 9));
    memory.reset();
    assert_eq!(read(&mut memory, &home, 0, 64), [0; 64], "its content ended with the epoch");
    let next_epoch = memory.device_input(&home, &input, EPOCH).expect("has a home");
    assert!(Rc::ptr_eq(&first.0, &next_epoch.0));
    assert_eq!(*next_epoch.0.borrow(), [0; 64]);
    memory.reset();
    memory.reset();
    let later = memory.device_input(&home, &input, EPOCH).expect("has a home");
    assert!(Rc::ptr_eq(&first.0, &later.0), "it waits while there is room");
    memory.reset();
    let others = root(60, 0, 49, 1);
    memory.device_output(&home, &others, EPOCH).expect("has a home");
    memory.reset();
    let last = memory.device_input(&home, &input, EPOCH).expect("has a home");
    assert!(!Rc::ptr_eq(&first.0, &last.0), "196 bytes of the last epoch and its own 64 are more than the buffer");
}

#[test]
fn a_failed_read_back_leaves_the_record_whole() {
    let (home, mut memory) = (MockHome::default(), Memory::new(1 << 20));
    let a = root(0, 0, 1 << 15, 1);
    memory.write(&home, &a, PERSISTENT, 0, &pattern(1 << 17, 5)).expect("in range");
    memory.device_input(&home, &a, PERSISTENT).expect("has a home");
    home.fail.set(true);
    assert_eq!(memory.read(&home, 0, &mut [0; 4]), Err(MemoryError::Device("lost".into())));
    assert!(memory.write(&home, &a, PERSISTENT, 8, &[1, 2]).is_err());
    assert!(memory.write(&home, &root(16, 0, 4, 1), PERSISTENT, 16, &[0; 16]).is_err());
    home.fail.set(false);
    assert_eq!(read(&mut memory, &home, 0, 1 << 17), pattern(1 << 17, 5));
}

#[test]
fn ranges_outside_the_buffer_are_refused() {
    let (home, mut memory) = (MockHome::default(), Memory::new(64));
    assert_eq!(memory.read(&home, 60, &mut [0; 8]), Err(MemoryError::OutOfRange { start: 60, end: 68, size: 64 }));
    assert!(memory.write(&home, &root(0, 0, 4, 1), PERSISTENT, usize::MAX, &[1]).is_err());
    assert!(memory.device_input(&home, &root(32, 0, 16, 1), PERSISTENT).is_err());
    assert!(matches!(memory.device_input(&home, &root(0, 28, 4, 1), PERSISTENT), Err(MemoryError::Homeless(28, ..))));
}

/// One access of a host or a computation.
#[derive(Clone, Debug)]
enum Access {
    Write {
        root: usize,
        at: usize,
        len: usize,
        seed: u8,
    },
    WriteAll {
        root: usize,
        seed: u8,
    },
    Fill {
        root: usize,
        at: usize,
        len: usize,
        value: u8,
    },
    Clear(u8),
    /// A computation that reads the root and changes it on the device.
    Update {
        root: usize,
        xor: u8,
    },
    /// A computation that writes all of the root.
    Overwrite {
        root: usize,
        seed: u8,
    },
    Read {
        at: usize,
        len: usize,
    },
}

const SIZE: usize = 1024;

/// Roots of every kind of home and of none, overlapping in every way.
fn roots() -> Vec<Root> {
    let mut permuted = root(128, 0, 6, 4);
    permuted.geometry.ne = [4, 6, 1, 1];
    permuted.geometry.nb = [24, 4, 96, 96];
    vec![
        root(0, 0, 16, 4),
        root(0, 0, 4, 16),
        root(64, 1, 32, 2),
        root(32, 26, 10, 3),
        root(256, 8, 64, 3),
        root(300, 3, 32, 5),
        root(256, 27, 8, 2),
        root(264, 28, 8, 2),
        root(300, 12, 256, 2),
        root(420, 16, 256, 2),
        root(590, 30, 33, 3),
        root(0, 0, 1, 1),
        root(0, 1, 512, 1),
        root(960, 0, 16, 1),
        permuted,
    ]
}

fn access() -> impl Strategy<Value = Access> {
    let root = 0..roots().len();
    let part = (root.clone(), 0..600usize, 0..200usize);
    prop_oneof![
        (part.clone(), any::<u8>()).prop_map(|((root, at, len), seed)| Access::Write { root, at, len, seed }),
        (root.clone(), any::<u8>()).prop_map(|(root, seed)| Access::WriteAll { root, seed }),
        (part, any::<u8>()).prop_map(|((root, at, len), value)| Access::Fill { root, at, len, value }),
        any::<u8>().prop_map(Access::Clear),
        (root.clone(), any::<u8>()).prop_map(|(root, xor)| Access::Update { root, xor }),
        (root, any::<u8>()).prop_map(|(root, seed)| Access::Overwrite { root, seed }),
        (0..SIZE, 0..SIZE).prop_map(|(at, len)| Access::Read { at, len: len.min(SIZE - at) }),
    ]
}

/// Cuts a range of a root to the buffer; it may run past the root's end.
fn clip(root: &Root, at: usize, len: usize) -> (usize, usize) {
    let start = root.offset + at % root.geometry.nbytes;
    (start, len.min(SIZE - start))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn behaves_like_an_array_of_bytes(accesses in prop::collection::vec(access(), 1..40)) {
        let (home, mut memory) = (MockHome::default(), Memory::new(SIZE));
        let mut model = vec![0u8; SIZE];
        let roots = roots();
        for access in accesses {
            match access {
                Access::Write { root, at, len, seed } => {
                    let (start, len) = clip(&roots[root], at, len);
                    let bytes = pattern(len, seed);
                    memory.write(&home, &roots[root], PERSISTENT, start, &bytes).expect("in range");
                    model[start..start + len].copy_from_slice(&bytes);
                }
                Access::WriteAll { root, seed } => {
                    let root = &roots[root];
                    let bytes = pattern(root.geometry.nbytes, seed);
                    memory.write(&home, root, PERSISTENT, root.offset, &bytes).expect("in range");
                    model[root.offset..root.end()].copy_from_slice(&bytes);
                }
                Access::Fill { root, at, len, value } => {
                    let (start, len) = clip(&roots[root], at, len);
                    memory.fill(&home, &roots[root], PERSISTENT, start, len, value).expect("in range");
                    model[start..start + len].fill(value);
                }
                Access::Clear(value) => {
                    memory.clear(value);
                    model.fill(value);
                }
                Access::Update { root, xor } => {
                    let root = &roots[root];
                    if root.geometry.home().is_some() {
                        let tensor = memory.device_input(&home, root, PERSISTENT).expect("has a home");
                        prop_assert_eq!(&*tensor.0.borrow(), &model[root.offset..root.end()]);
                        tensor.0.borrow_mut().iter_mut().for_each(|byte| *byte ^= xor);
                        memory.mark_device_written(root);
                        model[root.offset..root.end()].iter_mut().for_each(|byte| *byte ^= xor);
                    }
                }
                Access::Overwrite { root, seed } => {
                    let root = &roots[root];
                    if root.geometry.home().is_some() {
                        let bytes = pattern(root.geometry.nbytes, seed);
                        let tensor = memory.device_output(&home, root, PERSISTENT).expect("has a home");
                        tensor.0.borrow_mut().copy_from_slice(&bytes);
                        memory.mark_device_written(root);
                        model[root.offset..root.end()].copy_from_slice(&bytes);
                    }
                }
                Access::Read { at, len } => {
                    prop_assert_eq!(read(&mut memory, &home, at, len), &model[at..at + len]);
                }
            }
        }
        prop_assert_eq!(read(&mut memory, &home, 0, SIZE), model);
    }
}

/// An access to a compute buffer, or the end of an epoch.
#[derive(Clone, Debug)]
enum Event {
    Access(Access),
    Reset,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![8 => access().prop_map(Event::Access), 1 => Just(Event::Reset)]
}

/// What a compute buffer should hold. Roots that a new one touches are dead: nobody reads their bytes.
struct Epochs {
    background: u8,
    /// `None` where anything may be.
    bytes: Vec<Option<u8>>,
    alive: Vec<Root>,
}

impl Epochs {
    /// The root gets its place.
    fn take(&mut self, root: &Root) {
        let meets = |other: &Root| root.offset < other.end() && other.offset < root.end();
        let (dead, alive) =
            std::mem::take(&mut self.alive).into_iter().partition(|other| other != root && meets(other));
        self.alive = alive;
        for other in <Vec<Root> as IntoIterator>::into_iter(dead) {
            for at in (other.offset..other.end()).filter(|at| !(root.offset..root.end()).contains(at)) {
                self.bytes[at] = None;
            }
        }
        if !self.alive.contains(root) {
            self.alive.push(*root);
        }
    }

    fn put(&mut self, start: usize, bytes: &[u8]) {
        self.bytes[start..start + bytes.len()].iter_mut().zip(bytes).for_each(|(old, &new)| *old = Some(new));
    }

    /// The bytes of a root, unless somebody else's death left some of them open.
    fn of(&self, root: &Root) -> Option<Vec<u8>> {
        self.bytes[root.offset..root.end()].iter().copied().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn epochs_keep_what_is_alive(events in prop::collection::vec(event(), 1..40)) {
        let (home, mut memory) = (MockHome::default(), Memory::new(SIZE));
        let mut model = Epochs { background: 0, bytes: vec![Some(0); SIZE], alive: Vec::new() };
        let roots = roots();
        for event in events {
            match event {
                Event::Reset => {
                    memory.reset();
                    model = Epochs { bytes: vec![Some(model.background); SIZE], alive: Vec::new(), ..model };
                }
                Event::Access(Access::Write { root, at, len, seed }) => {
                    let root = &roots[root];
                    let start = root.offset + at % root.geometry.nbytes;
                    let bytes = pattern(len.min(root.end() - start), seed);
                    memory.write(&home, root, EPOCH, start, &bytes).expect("in range");
                    if !bytes.is_empty() {
                        model.take(root);
                    }
                    model.put(start, &bytes);
                }
                Event::Access(Access::WriteAll { root, seed }) => {
                    let bytes = pattern(roots[root].geometry.nbytes, seed);
                    memory.write(&home, &roots[root], EPOCH, roots[root].offset, &bytes).expect("in range");
                    model.take(&roots[root]);
                    model.put(roots[root].offset, &bytes);
                }
                Event::Access(Access::Fill { root, value, .. }) => {
                    let (root, len) = (&roots[root], roots[root].geometry.nbytes);
                    memory.fill(&home, root, EPOCH, root.offset, len, value).expect("in range");
                    model.take(root);
                    model.put(root.offset, &vec![value; len]);
                }
                Event::Access(Access::Clear(value)) => {
                    memory.clear(value);
                    model.background = value;
                    model.bytes.fill(Some(value));
                }
                Event::Access(Access::Update { root, xor }) if roots[root].geometry.home().is_some() => {
                    let root = &roots[root];
                    let tensor = memory.device_input(&home, root, EPOCH).expect("has a home");
                    model.take(root);
                    if let Some(bytes) = model.of(root) {
                        prop_assert_eq!(&*tensor.0.borrow(), &bytes);
                    }
                    tensor.0.borrow_mut().iter_mut().for_each(|byte| *byte ^= xor);
                    memory.mark_device_written(root);
                    let changed = tensor.0.borrow().clone();
                    model.put(root.offset, &changed);
                }
                Event::Access(Access::Overwrite { root, seed }) if roots[root].geometry.home().is_some() => {
                    let root = &roots[root];
                    let bytes = pattern(root.geometry.nbytes, seed);
                    let tensor = memory.device_output(&home, root, EPOCH).expect("has a home");
                    tensor.0.borrow_mut().copy_from_slice(&bytes);
                    memory.mark_device_written(root);
                    model.take(root);
                    model.put(root.offset, &bytes);
                }
                Event::Access(Access::Update { .. } | Access::Overwrite { .. }) => {}
                Event::Access(Access::Read { at, len }) => {
                    let found = read(&mut memory, &home, at, len);
                    let right = found.iter().zip(&model.bytes[at..]).all(|(found, want)| want.is_none_or(|want| want == *found));
                    prop_assert!(right, "{at}: {found:?} is not {:?}", &model.bytes[at..at + len]);
                }
            }
        }
    }
}
