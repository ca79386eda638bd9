//! Every call of Vulkan fails, each time that a small program makes it, in every way that it may: there is an error with
//! words, nothing leaks, and the next use says what happened.

mod loader;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk::Result as Answer;
use fblayout::engine::{Engine, EngineOptions, Error};
use fblayout::graph::{Array, Contents, DType, Graph, Op, Unary, ValueId, eval};
use fblayout::plan::{PlanOptions, StorageChoice};
use fblayout::vulkan::{self, Census, GpuOptions, Repacking, Step, Tape, TapeOptions, Validation, Work};
use loader::{CALLS, Call, Fault};

/// What the validation layer said, of devices too that failed to open.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener;

impl log::Log for Listener {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let text = record.args().to_string();
        if text.starts_with("validation:") {
            said().push(text);
        }
    }

    fn flush(&self) {}
}

fn said() -> std::sync::MutexGuard<'static, Vec<String>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program with everything that engines do: tensors in images, transfers that the device repacks and others by the host itself, a value in
/// the arena, times of steps, a run again, a tape that is in flight while the host writes.
struct Small {
    graph: Graph,
    x: ValueId,
    w: ValueId,
    y: ValueId,
    options: EngineOptions,
}

impl Small {
    fn new(cache: &Path) -> Self {
        let mut graph = Graph::new();
        let x = graph.external("x", DType::F32, [8, 3, 1, 1]);
        let w = graph.external("w", DType::F32, [8, 8, 1, 1]);
        let (whole_x, whole_w) = (graph.whole(x), graph.whole(w));
        let h = graph.node("h", Op::MulMat, vec![whole_w, whole_x]).unwrap();
        let h = graph.whole(h);
        let h = graph.node("relu", Op::Unary(Unary::Relu), vec![h]).unwrap();
        let h = graph.whole(h);
        let y = graph.node("y", Op::MulMat, vec![whole_w, h]).unwrap();
        graph.keep(y);
        let gpu = GpuOptions {
            validation: Validation::Sync,
            staging_bytes: 1 << 12,
            repacking: Repacking::Device,
            cache_folder: Some(cache.to_owned()),
            ..GpuOptions::default()
        };
        let plan = PlanOptions { storage: StorageChoice::Image, ..PlanOptions::default() };
        let tape = TapeOptions { steps_per_buffer: usize::MAX, timing: true, pieces_in_order: false };
        Self { graph, x, w, y, options: EngineOptions { gpu, plan, tape, ..EngineOptions::default() } }
    }

    fn open(&self) -> Result<Arc<Engine>, Error> {
        Engine::open(0, &self.options)
    }

    /// Numbers without a period that divides a row, small enough that all sums are exact.
    fn numbers(&self, value: ValueId, seed: usize) -> Vec<f32> {
        let [n, m, ..] = self.graph.values[value.index()].shape;
        (0..(n * m) as usize).map(|i| ((i * 7 + seed) % 5) as f32 - 2.0).collect()
    }

    /// What [`Small::work`] gives.
    fn expected(&self) -> Vec<Vec<f32>> {
        let results = [1, 2].map(|seed| {
            let mut contents = Contents::new();
            for value in [self.x, self.w] {
                let data = self.numbers(value, seed).into_iter().map(f64::from).collect();
                contents.insert(value, Array { shape: self.graph.values[value.index()].shape, data });
            }
            let contents = eval(&self.graph, contents).unwrap();
            contents[&self.y].data.iter().map(|&n| n as f32).collect()
        });
        results.to_vec()
    }

    fn work(&self, engine: &Engine) -> Result<Vec<Vec<f32>>, Error> {
        let externals: Vec<_> = [self.x, self.w]
            .into_iter()
            .map(|value| {
                let desc = self.graph.values[value.index()].desc();
                Ok((value, engine.create(desc.dtype, desc.shape)?))
            })
            .collect::<Result<_, Error>>()?;
        let write = |seed| {
            externals.iter().try_for_each(|(value, tensor)| {
                let bytes: Vec<u8> = self.numbers(*value, seed).iter().flat_map(|n| n.to_le_bytes()).collect();
                engine.write(tensor, &bytes)
            })
        };
        write(1)?;
        let mut program = engine.compile(&self.graph, &externals)?;
        let mut results = Vec::new();
        for seed in [1, 2] {
            write(seed)?;
            program.run()?;
            assert_eq!(program.step_nanoseconds()?.expect("times were asked for").len(), program.plan().steps.len());
            let bytes = engine.read(program.kept(self.y).expect("it is kept"))?;
            results.push(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect());
        }
        write_behind_a_run(engine.gpu())?;
        Ok(results)
    }
}

/// The host waits for the queue before it writes to memory that it has mapped; images take texels through staging.
fn write_behind_a_run(gpu: &Arc<vulkan::Gpu>) -> vulkan::Result<()> {
    let storage = gpu.create_buffer(4, 4)?;
    let fill = Step { work: Work::Fill { storage: &storage, pattern: 7 }, barrier_before: false, discard: &[] };
    let mut tape = Tape::record(gpu, &[fill], &TapeOptions::default())?;
    tape.submit()?;
    let bytes = [5; 256];
    gpu.upload(&storage, &bytes)?;
    assert_eq!(gpu.download(&storage)?, bytes);
    tape.wait()?;
    let image = gpu.create_image(4, 4)?;
    gpu.upload(&image, &bytes)?;
    assert_eq!(gpu.download(&image)?, bytes);
    Ok(())
}

/// What became of the faults of one call.
#[derive(Default)]
struct Told {
    injected: usize,
    absorbed: usize,
    refused: usize,
    lost: usize,
}

/// Says what a fault led to, and checks that nothing is left of it.
fn check(small: &Small, call: &Call, after: usize, answer: Answer, expected: &[Vec<f32>], alive: Census) -> Told {
    let at = format!("{} number {after} answers {answer:?}", call.name);
    said().clear();
    let before = loader::alive();
    loader::arm(Some(Fault { call: call.name, after, answer }));
    let mut told = Told { injected: 1, ..Told::default() };
    match small.open() {
        Err(error) => {
            told.refused = 1;
            assert_words(&error, call, answer, &at);
        }
        Ok(engine) => {
            let first = small.work(&engine);
            assert!(!loader::disarm(), "{at}: the call is not made");
            let again = small.work(&engine);
            match first {
                Ok(results) => {
                    told.absorbed = 1;
                    assert_eq!(results, expected, "{at}");
                }
                Err(error) => {
                    told.refused = 1;
                    assert_words(&error, call, answer, &at);
                }
            }
            if engine.gpu().is_lost() {
                told.refused = 0;
                told.lost = 1;
                assert!(answer == Answer::ERROR_DEVICE_LOST || call.name == "vkWaitForFences", "{at}");
                assert!(matches!(again, Err(Error::Device(vulkan::Error::DeviceLost { .. }))), "{at}: then {again:?}");
            } else {
                assert_ne!(answer, Answer::ERROR_DEVICE_LOST, "{at}");
                assert_eq!(again.unwrap_or_else(|e| panic!("{at}: then {e}")), expected, "{at}");
                assert_eq!(engine.gpu().census(), alive, "{at}");
            }
        }
    }
    assert_eq!(loader::alive(), before, "{at}: instances and devices are left");
    assert_eq!(*said(), Vec::<String>::new(), "{at}");
    told
}

/// The error says what ran out, or what failed and how.
fn assert_words(error: &Error, call: &Call, answer: Answer, at: &str) {
    let Error::Device(device) = error else { panic!("{at}: {error} is no error of the device") };
    // The allocator of storages tells of one answer only; of others it has the words.
    let pooled = matches!(call.name, "vkAllocateMemory" | "vkMapMemory");
    let kind = match answer {
        _ if pooled && matches!(device, vulkan::Error::NoMemory { .. }) => true,
        Answer::ERROR_OUT_OF_DEVICE_MEMORY => matches!(device, vulkan::Error::OutOfDeviceMemory { .. }),
        Answer::ERROR_OUT_OF_HOST_MEMORY => matches!(device, vulkan::Error::OutOfHostMemory { .. }),
        Answer::ERROR_DEVICE_LOST => matches!(device, vulkan::Error::DeviceLost { .. }),
        _ => error.to_string().contains(call.name),
    };
    assert!(kind, "{at}: {error}");
}

#[test]
fn every_call_may_fail_whenever_it_is_made() {
    log::set_logger(&Listener).expect("the first logger");
    log::set_max_level(log::LevelFilter::Warn);
    loader::install();
    let cache = tempfile::tempdir().unwrap();
    let small = Small::new(cache.path());
    let expected = small.expected();

    loader::arm(None);
    let engine = small.open().expect("a Vulkan device");
    assert_eq!(small.work(&engine).unwrap(), expected);
    let made = loader::made();
    small.work(&engine).unwrap();
    let alive = engine.gpu().census();
    drop(engine);
    assert_eq!(loader::alive(), 0);

    println!("{:50} {:>5} {:>8} {:>8} {:>7} {:>4}", "call", "made", "injected", "absorbed", "refused", "lost");
    let (mut sum, mut failed) = (Told::default(), 0);
    for (call, &made) in CALLS.iter().zip(&made) {
        // Only devices that multiply matrices are asked for their sizes.
        let always = call.name != "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR";
        assert!(made > 0 || !always, "{} is never made, so that it cannot fail", call.name);
        let mut told = Told::default();
        for after in 0..made {
            for &answer in call.answers {
                let checked = || check(&small, call, after, answer, &expected, alive);
                match catch_unwind(AssertUnwindSafe(checked)) {
                    Ok(more) => add(&mut told, &more),
                    Err(_) => failed += 1,
                }
            }
        }
        tell(call.name, made, &told);
        add(&mut sum, &told);
    }
    tell("all", made.iter().sum(), &sum);
    assert_eq!(failed, 0, "faults that were not answered as they should be, see above");
}

fn add(sum: &mut Told, more: &Told) {
    sum.injected += more.injected;
    sum.absorbed += more.absorbed;
    sum.refused += more.refused;
    sum.lost += more.lost;
}

fn tell(name: &str, made: usize, told: &Told) {
    println!("{name:50} {made:5} {:8} {:8} {:7} {:4}", told.injected, told.absorbed, told.refused, told.lost);
}

/// Sources name a call where they give its failure; a call that the loader does not know would never fail.
#[test]
fn no_call_is_forgotten() {
    let mut named = BTreeSet::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vulkan")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        named.extend(text.split('"').skip(1).step_by(2).filter(|s| s.starts_with("vk")).map(str::to_owned));
    }
    let known: BTreeSet<String> = CALLS.iter().map(|call| call.name.to_owned()).collect();
    assert_eq!(named, known);
}
