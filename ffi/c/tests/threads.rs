//! Calls that the header allows from several threads at once, made by several threads at once: each gets the answer that it would get
//! alone, or FBL_ERR_BUSY where the header says so. `scripts/threads.sh` runs this under ThreadSanitizer.

use std::collections::HashSet;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fblayout_c::device::{fbl_device_count, fbl_device_limits};
use fblayout_c::engine::*;
use fblayout_c::graph::*;
use fblayout_c::handle::fbl_tensor;
use fblayout_c::log::{FBL_LOG_DEBUG, FBL_LOG_ERROR, fbl_log_set};
use fblayout_c::ops::{fbl_cross_entropy, fbl_matmul, fbl_scale};
use fblayout_c::program::*;
use fblayout_c::status::*;
use fblayout_c::train::*;
use fblayout_c::version::{FBL_FEATURE_TRAIN, fbl_has_feature};

const THREADS: usize = 4;
/// Elements of a tensor.
const N: usize = 64;

/// How often each thread does its work; `FBL_ROUNDS` says otherwise.
fn rounds() -> usize {
    std::env::var("FBL_ROUNDS").map_or(6, |rounds| rounds.parse().expect("FBL_ROUNDS is a number"))
}

/// What threads share.
struct Handle<T>(*mut T);

// SAFETY: threads make the calls that the header allows them.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// A text by the text convention, first asked for its length.
fn text(call: impl Fn(*mut c_char, usize, *mut usize) -> fbl_status) -> String {
    let mut length = 0;
    assert_eq!(call(null_mut(), 0, &raw mut length), FBL_TRUNCATED);
    let mut bytes = vec![0_u8; length + 1];
    // Where threads fail beside each other, an engine's message may have become longer.
    assert!(call(bytes.as_mut_ptr().cast(), bytes.len(), null_mut()) >= FBL_OK);
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).expect("a NUL"));
    String::from_utf8(bytes).expect("UTF-8")
}

/// This thread's last failure.
fn message() -> String {
    // SAFETY: NULL is this thread; the room is as it says.
    text(|buffer, capacity, length| unsafe { fbl_error_message(null(), buffer, capacity, length) })
}

fn ok(status: fbl_status) {
    assert_eq!(status, FBL_OK, "{}", message());
}

/// Whether a call did its work; otherwise another thread was in one.
fn did(status: fbl_status) -> bool {
    assert!(matches!(status, FBL_OK | FBL_ERR_BUSY), "{status}: {}", message());
    status == FBL_OK
}

fn engine() -> Handle<fbl_engine> {
    let mut engine = null_mut();
    // SAFETY: the place is a variable.
    ok(unsafe { fbl_engine_create(null(), &raw mut engine) });
    Handle(engine)
}

/// `y = 2 x`, compiled.
struct Doubled {
    graph: *mut fbl_graph,
    program: *mut fbl_program,
    x: fbl_tensor,
    y: fbl_tensor,
}

// SAFETY: as that of handles.
unsafe impl Send for Doubled {}
// SAFETY: as above.
unsafe impl Sync for Doubled {}

impl Doubled {
    fn new(engine: &Handle<fbl_engine>, policy: u32) -> Self {
        let mut new = Self { graph: null_mut(), program: null_mut(), x: 0, y: 0 };
        // SAFETY: texts end, places are variables, the options' size is theirs and zero is a value of all their fields.
        unsafe {
            ok(fbl_graph_create(engine.0, &raw mut new.graph));
            ok(fbl_input(new.graph, c"x".as_ptr(), 0, [N as i64, 1, 1, 1].as_ptr(), &raw mut new.x));
            ok(fbl_scale(new.graph, new.x, 2.0, &raw mut new.y));
            ok(fbl_output(new.graph, new.y));
            let options =
                fbl_compile_options { struct_size: size_of::<fbl_compile_options>(), policy, ..std::mem::zeroed() };
            ok(fbl_compile(new.graph, &raw const options, &raw mut new.program));
        }
        new
    }

    fn upload(&self, value: f32) -> fbl_status {
        let data = [value; N];
        // SAFETY: the data has the size.
        unsafe { fbl_program_upload(self.program, self.x, 0, data.as_ptr().cast(), size_of_val(&data)) }
    }

    fn run(&self) -> fbl_status {
        // SAFETY: a program.
        unsafe { fbl_program_run(self.program) }
    }

    fn download(&self, tensor: fbl_tensor, data: &mut [f32; N]) -> fbl_status {
        // SAFETY: the data has the size.
        unsafe { fbl_program_download(self.program, tensor, 0, data.as_mut_ptr().cast(), size_of_val(data)) }
    }

    /// Another op of the graph; nothing where another thread is in a call with it.
    fn halved(&self) -> Option<fbl_tensor> {
        let mut result = 0;
        // SAFETY: a graph and a place.
        did(unsafe { fbl_scale(self.graph, self.y, 0.5, &raw mut result) }).then_some(result)
    }

    fn doubles(&self, value: f32) {
        let mut found = [0.0; N];
        ok(self.upload(value));
        ok(self.run());
        ok(self.download(self.y, &mut found));
        assert_eq!(found, [2.0 * value; N]);
    }

    /// Destroys both, once all threads are through with them.
    fn destroy(&self) {
        // SAFETY: made by `new`; the caller destroys once.
        unsafe {
            fbl_program_destroy(self.program);
            fbl_graph_destroy(self.graph);
        }
    }
}

/// Counts in the number that `user` is.
unsafe extern "C" fn count(_: u32, _: *const c_char, length: usize, user: *mut c_void) {
    // SAFETY: `fbl_log_set` was given a counter that outlives all threads.
    unsafe { &*user.cast::<AtomicUsize>() }.fetch_add(length.min(1), Ordering::Relaxed);
}

#[test]
fn threads_build_compile_and_run_on_one_engine() {
    let engine = engine();
    let work = |number: usize| {
        for round in 0..rounds() {
            let policy = [FBL_DEFAULT, FBL_POLICY_HONEST_ROWMAJOR, FBL_POLICY_CONVERT_ALWAYS][(number + round) % 3];
            let doubled = Doubled::new(&engine, policy);
            doubled.doubles((100 * number + round) as f32);
            let name = CString::new(format!("NONE_{number}")).expect("no NUL");
            let (mut result, mut messages, mut devices) = (0, 0, 0);
            // SAFETY: handles are alive, texts end, places are variables.
            unsafe {
                let refused = fbl_op(doubled.graph, name.as_ptr(), null(), null(), 0, &raw mut result);
                assert_eq!(refused, FBL_ERR_INVALID_ARGUMENT);
                assert!(message().contains(&format!("NONE_{number}")), "a thread has its own message");
                let last = text(|b, c, l| fbl_error_message(engine.0, b, c, l));
                assert!(last.contains("NONE_"), "an engine has that of any: {last}");
                text(|b, c, l| fbl_engine_limits(engine.0, b, c, l));
                ok(fbl_engine_validation_count(engine.0, &raw mut messages));
                ok(fbl_device_count(&raw mut devices));
                text(|b, c, l| fbl_device_limits(0, b, c, l));
                text(|b, c, l| fbl_ops(b, c, l));
            }
            assert!(messages == 0 && devices > 0 && fbl_has_feature(FBL_FEATURE_TRAIN) == 1);
            doubled.destroy();
        }
        Doubled::new(&engine, FBL_DEFAULT)
    };
    let left: Vec<Doubled> = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    // The device lives as long as anything of it, whoever destroys what first.
    thread::scope(|scope| {
        for doubled in &left {
            scope.spawn(|| {
                doubled.doubles(1.0);
                doubled.destroy();
            });
        }
        // SAFETY: no thread calls with the engine itself any more.
        unsafe { fbl_engine_destroy(engine.0) };
    });
}

#[test]
fn a_program_is_one_threads_at_a_time() {
    let engine = engine();
    let doubled = Doubled::new(&engine, FBL_DEFAULT);
    ok(doubled.upload(0.0));
    ok(doubled.run());
    let work = |number: usize| {
        let mut found = [0.0; N];
        for round in 0..20 * rounds() {
            did(doubled.upload((number + round) as f32));
            did(doubled.run());
            for tensor in [doubled.x, doubled.y] {
                if did(doubled.download(tensor, &mut found)) {
                    assert!(found.iter().all(|x| *x == found[0]), "another thread's upload or run shows in part");
                }
            }
            let mut length = 0;
            // SAFETY: a program and a place; the title ends.
            let told =
                unsafe { fbl_program_plan_html(doubled.program, c"2 x".as_ptr(), null_mut(), 0, &raw mut length) };
            assert!(matches!(told, FBL_TRUNCATED | FBL_ERR_BUSY));
        }
    };
    thread::scope(|scope| {
        for number in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
    doubled.doubles(3.0);
    doubled.destroy();
    // SAFETY: made above, destroyed once.
    unsafe { fbl_engine_destroy(engine.0) };
}

#[test]
fn a_graph_is_one_threads_at_a_time() {
    let engine = engine();
    let doubled = Doubled::new(&engine, FBL_DEFAULT);
    let work = || {
        let mut made = Vec::new();
        for _ in 0..20 * rounds() {
            made.extend(doubled.halved());
        }
        made
    };
    let made: Vec<fbl_tensor> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(made.iter().collect::<HashSet<_>>().len(), made.len(), "every op has a tensor of its own");
    let name = CString::new("last").expect("no NUL");
    let mut found = 0;
    // SAFETY: a graph, a text, a place.
    unsafe {
        ok(fbl_graph_name(doubled.graph, *made.last().expect("some thread was alone"), name.as_ptr()));
        ok(fbl_graph_find(doubled.graph, name.as_ptr(), &raw mut found));
    }
    assert_eq!(Some(&found), made.last());
    doubled.destroy();
    // SAFETY: made above, destroyed once.
    unsafe { fbl_engine_destroy(engine.0) };
}

#[test]
fn a_trainer_is_stopped_from_any_thread() {
    let engine = engine();
    let (mut graph, mut trainer, mut program) = (null_mut(), null_mut(), null_mut());
    let [mut w, mut x, mut labels, mut logits, mut loss] = [0; 5];
    let shape = [8, 8, 1, 1];
    // SAFETY: texts end, places are variables, sizes are those of the structs.
    unsafe {
        ok(fbl_graph_create(engine.0, &raw mut graph));
        ok(fbl_parameter(graph, c"w".as_ptr(), 0, shape.as_ptr(), &raw mut w));
        ok(fbl_input(graph, c"x".as_ptr(), 0, shape.as_ptr(), &raw mut x));
        ok(fbl_input(graph, c"labels".as_ptr(), 0, shape.as_ptr(), &raw mut labels));
        ok(fbl_matmul(graph, w, x, &raw mut logits));
        ok(fbl_cross_entropy(graph, logits, labels, &raw mut loss));
        let size = size_of::<fbl_train_options>();
        let options = fbl_train_options { struct_size: size, loss, logits, labels, ..std::mem::zeroed() };
        ok(fbl_trainer_create(graph, &raw const options, &raw mut trainer));
        ok(fbl_trainer_program(trainer, &raw mut program));
    }
    let (trainer, program) = (Handle(trainer), Handle(program));
    let outcome = || {
        // SAFETY: zero is a value of all fields.
        fbl_outcome { struct_size: size_of::<fbl_outcome>(), ..unsafe { std::mem::zeroed() } }
    };
    thread::scope(|scope| {
        let (trainer, program) = (&trainer, &program);
        let others: Vec<_> = (1..THREADS)
            .map(|_| {
                scope.spawn(move || {
                    let mut found = [0_f32; 64];
                    for _ in 0..10 * rounds() {
                        let mut outcome = outcome();
                        // SAFETY: a trainer and its program, places of the sizes.
                        unsafe {
                            did(fbl_trainer_evaluate(trainer.0, &raw mut outcome));
                            did(fbl_program_download(program.0, w, 0, found.as_mut_ptr().cast(), 256));
                        }
                    }
                })
            })
            .collect();
        let steps = scope.spawn(move || {
            let mut outcome = outcome();
            loop {
                // SAFETY: a trainer, a place.
                match unsafe { fbl_trainer_step(trainer.0, &raw mut outcome) } {
                    FBL_STOPPED => break,
                    status => did(status),
                };
            }
        });
        others.into_iter().for_each(|thread| thread.join().expect("no panic"));
        // SAFETY: a trainer.
        ok(unsafe { fbl_trainer_stop(trainer.0) });
        steps.join().expect("no panic");
    });
    // SAFETY: made above, destroyed once.
    unsafe {
        fbl_trainer_destroy(trainer.0);
        fbl_graph_destroy(graph);
        fbl_engine_destroy(engine.0);
    }
}

/// Who was told before is not told once another is set.
#[test]
fn the_log_changes_hands() {
    // SAFETY: NULL is refused, which is logged.
    let fail = || assert_eq!(unsafe { fbl_program_run(null_mut()) }, FBL_ERR_NULL);
    let work = || {
        let counter = AtomicUsize::new(0);
        for round in 0..10 * rounds() {
            let user = (&raw const counter).cast_mut().cast();
            ok(fbl_log_set(Some(count), user, [FBL_LOG_ERROR, FBL_LOG_DEBUG][round % 2]));
            fail();
            ok(fbl_log_set(None, null_mut(), FBL_LOG_ERROR));
            let told = counter.load(Ordering::Relaxed);
            fail();
            assert_eq!(counter.load(Ordering::Relaxed), told, "told after another was set");
        }
        counter.into_inner()
    };
    let told: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!(told > 0, "nobody was told");
}
